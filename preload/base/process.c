/* The process file: its size, its header. preload/base/wire.h draws it. */
#include "arch.h"
#include "base/attachment.h"
#include "base/entries.h"
#include "base/filter.h"
#include "base/reader.h"
#include "base/target.h"

#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>

struct file_layout file_layout(uint32_t max_threads, uint64_t most) {
    struct file_layout l = {.max_threads = max_threads, .most = most};
    l.threads = sizeof(struct mallow_process) + MALLOW_MAX_MODULES * sizeof(struct mallow_module);
    l.part = l.bytes = (l.threads + max_threads * sizeof(struct mallow_thread) + ARCH_PAGE - 1) & ~(ARCH_PAGE - 1);
    return l;
}

/* The file is sparse, but its mapping counts against RLIMIT_AS, and its size against RLIMIT_FSIZE, where going over the
 * limit is a signal. So the number of threads shrinks until it fits well. */
static int layout_fit(struct file_layout *layout) {
    uint64_t space = sys_limit(RLIMIT_AS), size = sys_limit(RLIMIT_FSIZE);
    uint64_t most = space == UINT64_MAX ? space : space / 16;
    if (size < most)
        most = size;
    for (uint32_t threads = target.control->max_threads; threads > 0; threads /= 2) {
        *layout = file_layout(threads, most);
        if (recording->file_layout != NULL)
            recording->file_layout(layout);
        if (layout->bytes <= most && layout->bytes != UINT64_MAX)
            return 0;
    }
    return -1;
}

static void header_text(struct mallow_process *process) {
    long length = sys_readlink("/proc/self/exe", process->text, 1024);
    process->executable_len = length > 0 ? (uint32_t)length : 0;
    long fd = sys_open("/proc/self/cmdline", O_RDONLY, 0);
    if (fd < 0)
        return;
    char *arguments = process->text + process->executable_len;
    length = sys_read((int)fd, arguments, sizeof process->text - process->executable_len);
    sys_close((int)fd);
    if (length > 0 && target.control->flags & MALLOW_NO_ARGUMENTS) {
        /* A process that goes on may have a title there, whose words are one for the kernel. */
        long end = length, may_be_title = process->origin != MALLOW_ORIGIN_EXEC;
        for (length = 0; length < end && arguments[length] != 0 && !(may_be_title && arguments[length] == ' ');)
            length++;
        memset(arguments + length, 0, (size_t)(end - length));
    }
    process->arguments_len = length > 0 ? (uint32_t)length : 0;
}

/* Makes the file with the first serial number that is free. */
static long file_create(uint32_t *serial) {
    char path[sizeof target.directory + 32];
    size_t length = text_copy(path, target.directory, sizeof path);
    char *at = path + length;
    memcpy(at, "/p-", 3);
    at = text_decimal(at + 3, target.pid);
    *at++ = '-';
    for (*serial = 0; *serial < 1000000; ++*serial) {
        *text_decimal(at, *serial) = 0;
        long fd = target_open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
        if (fd != -17) /* EEXIST */
            return fd;
    }
    return -17;
}

/* The lock comes before the mapping, so that a reader that finds the header finds the lock. */
static struct mallow_process *file_map(long fd, const struct file_layout *layout) {
    uint64_t bytes = layout->bytes;
    uint32_t held = sys_lock_open_file((int)fd) == 0;
    if (sys_truncate((int)fd, bytes) != 0)
        return NULL;
    struct mallow_process *process = sys_map((int)fd, bytes, 1);
    if (process == NULL)
        return NULL;
    if (sys_populate(process, sizeof *process) != 0 ||
        (recording->file_mapped != NULL && !recording->file_mapped(process, layout))) {
        sys_unmap(process, bytes);
        return NULL;
    }
    sys_keep_out_of_core(process, bytes);
    process->held = held;
    return process;
}

int process_open(void) {
    struct mallow_control *control = target.control;
    struct file_layout layout;
    uint32_t serial = 0;
    /* A child that was forked says so: its copy of `pid` is its parent's. */
    uint32_t pid = (uint32_t)sys_getpid();
    int forked = target.pid != 0 && target.pid != pid;
    target.pid = pid;

    int is_unread = !recording->reads_later && reader_is_gone(control);
    if (is_unread || ((control->flags & MALLOW_NO_CHILDREN) && pid != control->root_pid)) {
        target_stop();
        return -1;
    }
    /* Under a filter of system calls it may be punished to make a file. */
    int may_open = !filter_is(FILTER_FORBIDS_FILES);
    long fd = may_open && layout_fit(&layout) == 0 ? file_create(&serial) : -1;
    struct mallow_process *process = fd < 0 ? NULL : file_map(fd, &layout);
    if (fd >= 0)
        sys_close((int)fd);
    if (process == NULL) {
        __atomic_fetch_add(&control->failed_processes, 1, __ATOMIC_RELAXED);
        target_stop();
        return -1;
    }

    process->magic = MALLOW_PROCESS_MAGIC;
    process->version = MALLOW_WIRE_VERSION;
    process->mode = control->mode;
    process->pid = pid;
    process->parent_pid = (uint32_t)sys_getppid();
    process->origin = forked ? MALLOW_ORIGIN_FORK : attachment_is_late() ? MALLOW_ORIGIN_ATTACH : MALLOW_ORIGIN_EXEC;
    process->serial = serial;
    process->start_ns = sys_now_ns();
    process->file_bytes = layout.bytes;
    process->settings = target.settings;
    process->own = (uint64_t)&sys_own_list;
    process->modules_offset = sizeof *process;
    process->threads_offset = layout.threads;
    process->rings_offset = layout.part;
    process->max_threads = layout.max_threads;
    process->large_ring_words = control->large_ring_words;
    process->small_ring_words = control->small_ring_words;
    header_text(process);

    target.modules = (struct mallow_module *)((char *)process + process->modules_offset);
    target.threads = (struct mallow_thread *)((char *)process + process->threads_offset);
    target.part = (char *)process + process->rings_offset;
    __atomic_store_n(&target.process, process, __ATOMIC_RELEASE);
    if (recording->file_opened != NULL)
        recording->file_opened();
    __atomic_store_n(&process->state, MALLOW_PROCESS_READY, __ATOMIC_RELEASE);
    doorbell_ring();
    return 0;
}

/* How a sampled image ended, written into its file: exit, _exit, exec.  */
#include "sample/image_end.h"
#include "arch.h"
#include "base/filter.h"
#include "base/target.h"
#include "sample/sample_log.h"

/* Not <unistd.h>: it declares _exit in another way. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

typedef void leave(int status);
static leave *next_exit;

/* A filter may forbid to ask for the pid. A child of vfork that leaves under one speaks for its parent. */
static int is_own_image(void) {
    return filter_is(FILTER_SEEN) || (uint32_t)sys_getpid() == target.pid;
}

void image_end_now(void) {
    if (sample_log != NULL && image_alive != 0 && is_own_image())
        __atomic_store_n(&sample_log->exited, MALLOW_ENDING_AT_ONCE, __ATOMIC_RELAXED);
}

/* _exit and _Exit are ours in every mode. A call may come from another library's constructor, before this one. */
__attribute__((constructor)) static void look_up_exit(void) {
    void *symbol = dlsym(RTLD_NEXT, "_exit");
    memcpy(&next_exit, &symbol, sizeof symbol);
}

__attribute__((noreturn)) static void leave_at_once(int status) {
    image_end_now();
    if (next_exit == NULL)
        look_up_exit();
    if (next_exit != NULL)
        next_exit(status);
    for (;;)
        arch_syscall(SYS_exit_group, status, 0, 0, 0, 0, 0);
}

/* Programs call them by these names; the C library's own exit calls neither. */
EXPORT __attribute__((noreturn)) void _exit(int status) {
    leave_at_once(status);
}

EXPORT __attribute__((noreturn)) void _Exit(int status) {
    leave_at_once(status);
}

__attribute__((destructor)) static void image_exits(void) {
    if (sample_log != NULL && image_alive != 0)
        __atomic_store_n(&sample_log->exited, MALLOW_ENDING_EXIT, __ATOMIC_RELAXED);
}

/* What at_quick_exit calls in glibc's part of each library. Weak: another C library has none, and its loader would not
 * load a library that asks for it. */
extern int __cxa_at_quick_exit(void (*function)(void *), void *library) __attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

static void image_exits_quickly(void *no_block) {
    (void)no_block;
    image_end_now();
}

/* Whether a file with this process's pid is of this process, and not of one that had the pid before it. */
COLD static int is_of_this_process(uint64_t file_start_ns) {
    const uint64_t tick_ns = 10000000;
    struct timespec boot;
    uint64_t start; /* exec keeps it */
    char state;
    if (!sys_thread_stat("/proc/self/stat", &state, &start) || clock_gettime(CLOCK_BOOTTIME, &boot) != 0)
        return 1;
    uint64_t asleep_ns = (uint64_t)boot.tv_sec * 1000000000u + (uint64_t)boot.tv_nsec - sys_now_ns();
    return start <= (file_start_ns + asleep_ns) / tick_ns;
}

static int read_at(long fd, void *out, size_t bytes, uint64_t at) {
    return arch_syscall(SYS_pread64, fd, (long)out, (long)bytes, (long)at, 0, 0) == (long)bytes;
}

/* A file of this pid that no mallow has taken away: one that says of no end was replaced. */
COLD static void mark_replaced(long fd) {
    struct mallow_process process;
    size_t header = offsetof(struct mallow_process, text);
    uint32_t exited = 0, replaced = MALLOW_ENDING_EXEC;
    if (!read_at(fd, &process, header, 0) || process.magic != MALLOW_PROCESS_MAGIC ||
        process.version != MALLOW_WIRE_VERSION || process.pid != (uint32_t)sys_getpid() || process.sampling == 0)
        return;
    uint64_t at = process.sampling + offsetof(struct mallow_sampling, exited);
    if (at < process.file_bytes && read_at(fd, &exited, sizeof exited, at) && exited == 0 &&
        is_of_this_process(process.start_ns))
        arch_syscall(SYS_pwrite64, fd, (long)&replaced, sizeof replaced, (long)at, 0, 0);
}

/*
 * Images of one process are numbered: 0, 1, … A mallow that watches takes the first ones away, so that one may be
 * missing. Two that are is the usual case, and costs two system calls an image.
 */
COLD static void find_replaced(void) {
    char path[sizeof target.directory + 32];
    size_t length = text_copy(path, target.directory, sizeof path);
    memcpy(path + length, "/p-", 3);
    char *at = text_decimal(path + length + 3, (uint64_t)sys_getpid());
    *at++ = '-';
    for (uint32_t serial = 0, missing = 0; serial < 1000 && missing < 2; serial++) {
        if (target.process != NULL && target.process->serial == serial)
            continue;
        *text_decimal(at, serial) = 0;
        long fd = target_open(path, O_RDWR | O_NOFOLLOW, 0);
        if (fd < 0) {
            missing++;
            continue;
        }
        mark_replaced(fd);
        sys_close((int)fd);
    }
}

void image_end_watch(void) {
    static int watches;
    if (__cxa_at_quick_exit != NULL && !watches)
        __cxa_at_quick_exit(image_exits_quickly, &__dso_handle);
    watches = 1;
    find_replaced();
}

/* Raw system calls, and text without the C library.  */
#include "base/sys.h"
#include "arch.h"
#include "base/wire.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

/* Since Linux 4.14 and 5.14; older C libraries lack the names. */
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static const long eintr = -4, eagain = -11;

/* Again while a signal interrupts it. */
static long call_until_done(long number, long a, long b, long c, long d) {
    long result;
    do
        result = SYS_CALL4(number, a, b, c, d);
    while (result == eintr);
    return result;
}

long sys_open(const char *path, int flags, unsigned mode) {
    return call_until_done(SYS_openat, AT_FDCWD, (long)path, flags | O_CLOEXEC, (long)mode);
}

long sys_close(int fd) {
    return SYS_CALL1(SYS_close, fd);
}

long sys_read(int fd, void *out, size_t bytes) {
    return call_until_done(SYS_read, fd, (long)out, (long)bytes, 0);
}

long sys_write(int fd, const void *from, size_t bytes) {
    return call_until_done(SYS_write, fd, (long)from, (long)bytes, 0);
}

int sys_entries(const char *path, int (*stop)(void *context, const char *name), void *context) {
    /* struct linux_dirent64: inode, offset, length of the entry, type, name */
    _Alignas(8) char buffer[2048];
    long fd = sys_open(path, O_RDONLY | O_DIRECTORY, 0), got;
    if (fd < 0)
        return -1;
    int entries = 0, stopped = 0;
    while (!stopped && (got = SYS_CALL3(SYS_getdents64, fd, buffer, sizeof buffer)) > 0)
        for (long at = 0; at < got && !stopped;) {
            uint16_t length;
            memcpy(&length, buffer + at + 16, sizeof length);
            const char *name = buffer + at + 19;
            if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
                entries++;
                stopped = stop != NULL && stop(context, name);
            }
            at += length;
        }
    sys_close((int)fd);
    return got < 0 ? -1 : entries;
}

/* "PID (NAME) STATE …": the name may hold anything. The state is field 3, the start field 22. */
int sys_thread_stat(const char *path, char *state, uint64_t *start) {
    char text[1024];
    long fd = sys_open(path, O_RDONLY, 0);
    long length = fd < 0 ? -1 : sys_read((int)fd, text, sizeof text - 1);
    if (fd >= 0)
        sys_close((int)fd);
    if (length <= 0)
        return 0;
    text[length] = 0;
    const char *at = strrchr(text, ')');
    if (at == NULL || at[1] != ' ')
        return 0;
    *state = at[2];
    for (int field = 2; at != NULL && field < 22; field++)
        at = strchr(at + 1, ' ');
    if (at == NULL)
        return 0;
    *start = 0;
    for (at++; *at >= '0' && *at <= '9'; at++)
        *start = 10 * *start + (uint64_t)(*at - '0');
    return 1;
}

long sys_size(int fd, uint64_t *bytes) {
    struct stat status;
    long error = SYS_CALL2(SYS_fstat, fd, &status);
    *bytes = error ? 0 : (uint64_t)status.st_size;
    return error;
}

long sys_owner(int fd, uint32_t *user) {
    struct stat status;
    long error = SYS_CALL2(SYS_fstat, fd, &status);
    *user = error ? 0 : status.st_uid;
    return error;
}

uint32_t sys_geteuid(void) {
    return (uint32_t)SYS_CALL1(SYS_geteuid, 0);
}

long sys_readlink(const char *path, char *out, size_t bytes) {
    return SYS_CALL4(SYS_readlinkat, AT_FDCWD, path, out, bytes);
}

long sys_truncate(int fd, uint64_t bytes) {
    return call_until_done(SYS_ftruncate, fd, (long)bytes, 0, 0);
}

long sys_lock_open_file(int fd) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return SYS_CALL3(SYS_fcntl, fd, F_OFD_SETLK, &lock);
}

long sys_getpid(void) {
    return SYS_CALL1(SYS_getpid, 0);
}

long sys_getppid(void) {
    return SYS_CALL1(SYS_getppid, 0);
}

long sys_gettid(void) {
    return SYS_CALL1(SYS_gettid, 0);
}

uint32_t sys_forbidden;

static uint64_t signal_mask(uint64_t new) {
    uint64_t old = 0;
    SYS_CALL4(SYS_rt_sigprocmask, SIG_SETMASK, &new, &old, sizeof old);
    return old;
}

/* No mask has SIGKILL: all bits mean that nothing was blocked. */
uint64_t sys_block_signals(void) {
    return UNLIKELY(sys_forbidden) ? UINT64_MAX : signal_mask(UINT64_MAX);
}

void sys_restore_signals(uint64_t mask) {
    if (mask != UINT64_MAX)
        signal_mask(mask);
}

uint64_t sys_limit(int resource) {
    struct rlimit limit;
    if (SYS_CALL4(SYS_prlimit64, 0, resource, 0, &limit) != 0)
        return UINT64_MAX;
    return limit.rlim_cur;
}

uint64_t sys_now_ns(void) {
    struct timespec now = {0};
    SYS_CALL2(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void *map(int fd, size_t bytes, int protection, int flags) {
    long at = SYS_CALL6(SYS_mmap, 0, bytes, protection, flags, fd, 0);
    return at < 0 && at > -4096 ? NULL : (void *)at;
}

/* What the target has a limit for is the target's. */
static uint64_t data_limit, memory_taken;

uint64_t sys_data_limit(void) {
    uint64_t limit = __atomic_load_n(&data_limit, __ATOMIC_RELAXED);
    if (limit == 0) {
        limit = sys_limit(RLIMIT_DATA);
        limit = limit != 0 ? limit : 1;
        __atomic_store_n(&data_limit, limit, __ATOMIC_RELAXED);
    }
    return limit;
}

struct mallow_own sys_own_list;

static int own_take(struct mallow_own *list, uint64_t start, uint64_t bytes) {
    for (uint32_t i = 0; i < MALLOW_OWN_RANGES; i++) {
        struct mallow_own_range *range = &list->range[i];
        uint64_t none = 0;
        if (__atomic_load_n(&range->start, __ATOMIC_RELAXED) == 0 &&
            __atomic_compare_exchange_n(&range->start, &none, start, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
            __atomic_store_n(&range->bytes, bytes, __ATOMIC_RELEASE);
            return 1;
        }
    }
    return 0;
}

static struct mallow_own *own_next(const struct mallow_own *list) {
    return (struct mallow_own *)__atomic_load_n(&list->next, __ATOMIC_ACQUIRE);
}

/* Behind a full list. NULL: there is no memory. */
static struct mallow_own *own_more(struct mallow_own *list) {
    struct mallow_own *made =
        map(-1, sizeof *made, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
    uint64_t next = 0;
    if (made == NULL)
        return NULL;
    own_take(made, (uint64_t)made, ARCH_PAGE);
    if (__atomic_compare_exchange_n(&list->next, &next, (uint64_t)made, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return made;
    sys_unmap(made, sizeof *made); /* another thread was first */
    return (struct mallow_own *)next;
}

void sys_own(const void *start, size_t bytes, uint32_t flags) {
    uint64_t pages = (bytes + ARCH_PAGE - 1) & ~(uint64_t)(ARCH_PAGE - 1);
    struct mallow_own *list = &sys_own_list, *next;
    while (!own_take(list, (uint64_t)start, pages | flags)) {
        if ((next = own_next(list)) == NULL && (next = own_more(list)) == NULL)
            return;
        list = next;
    }
}

static void own_give(const void *start) {
    for (struct mallow_own *list = &sys_own_list; list != NULL; list = own_next(list))
        for (uint32_t i = 0; i < MALLOW_OWN_RANGES; i++)
            if (__atomic_load_n(&list->range[i].start, __ATOMIC_RELAXED) == (uint64_t)start) {
                __atomic_store_n(&list->range[i].bytes, 0, __ATOMIC_RELEASE);
                __atomic_store_n(&list->range[i].start, 0, __ATOMIC_RELEASE);
                return;
            }
}

void *sys_memory(size_t bytes) {
    void *start = NULL;
    if (__atomic_add_fetch(&memory_taken, bytes, __ATOMIC_RELAXED) <= sys_data_limit() / 8 && LIKELY(!sys_forbidden))
        start = map(-1, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
    if (start == NULL)
        __atomic_sub_fetch(&memory_taken, bytes, __ATOMIC_RELAXED);
    else
        sys_own(start, bytes, 0);
    return start;
}

void sys_memory_free(void *start, size_t bytes) {
    own_give(start); /* first: unmapped, the addresses may be another's at once */
    sys_unmap(start, bytes);
    __atomic_sub_fetch(&memory_taken, bytes, __ATOMIC_RELAXED);
}

void *sys_map(int fd, size_t bytes, int writable) {
    if (writable)
        return map(fd, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE);
    return map(fd, bytes, PROT_READ, MAP_PRIVATE);
}

void sys_unmap(void *start, size_t bytes) {
    SYS_CALL2(SYS_munmap, start, bytes);
}

long sys_populate(void *start, size_t bytes) {
    if (UNLIKELY(sys_forbidden))
        return -1; /* EPERM */
    uintptr_t first = (uintptr_t)start & ~(ARCH_PAGE - 1);
    uintptr_t end = ((uintptr_t)start + bytes + ARCH_PAGE - 1) & ~(ARCH_PAGE - 1);
    long error;
    do
        error = SYS_CALL3(SYS_madvise, first, end - first, MADV_POPULATE_WRITE);
    while (error == eintr || error == eagain);
    if (error != -22) /* EINVAL: a kernel before 5.14 */
        return error;
    /* The kernel itself writes one byte a page: where it cannot, that is EFAULT and no signal. */
    long self = sys_getpid();
    for (uintptr_t at = first; at < end; at += ARCH_PAGE) {
        char zero = 0;
        struct {
            void *base;
            size_t length;
        } from = {&zero, 1}, to = {(void *)at, 1};
        long done = SYS_CALL6(SYS_process_vm_writev, self, &from, 1, &to, 1, 0);
        if (done != 1)
            return done < 0 ? done : -14;
    }
    return 0;
}

long sys_wipe_on_fork(void *start, size_t bytes) {
    return SYS_CALL3(SYS_madvise, start, bytes, MADV_WIPEONFORK);
}

void sys_keep_out_of_core(void *start, size_t bytes) {
    SYS_CALL3(SYS_madvise, start, bytes, MADV_DONTDUMP);
}

int sys_readable(uint64_t address) {
    /* An invalid `how` with a set to read: the kernel copies the set before it looks at `how`. NULL is no set. */
    return address != 0 && SYS_CALL4(SYS_rt_sigprocmask, ~0, address, 0, 8) != -14;
}

int sys_futex_wait(uint32_t *word, uint32_t expected, unsigned ms) {
    struct timespec timeout = {ms / 1000, (long)(ms % 1000) * 1000000};
    return SYS_CALL4(SYS_futex, word, FUTEX_WAIT, expected, &timeout) == -110; /* ETIMEDOUT */
}

void sys_futex_wake(uint32_t *word) {
    SYS_CALL3(SYS_futex, word, FUTEX_WAKE, 0x7fffffff);
}

size_t text_copy(char *to, const char *from, size_t size) {
    size_t length = strlen(from);
    if (length > size - 1)
        length = size - 1;
    memcpy(to, from, length);
    to[length] = 0;
    return length;
}

char *text_decimal(char *to, uint64_t value) {
    char digits[20];
    int n = 0;
    do
        digits[n++] = (char)('0' + value % 10);
    while ((value /= 10) != 0);
    while (n > 0)
        *to++ = digits[--n];
    return to;
}

/* Filters of system calls as they are installed: prctl and syscall, and what the filter says of our own calls.  */
#include "base/filter.h"
#include "arch.h"
#include "base/attachment.h"
#include "base/entries.h"
#include "base/seccomp.h"

/* Not <unistd.h>, <signal.h> and <sys/prctl.h>: they declare prctl and syscall in another way. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define EXPORT          __attribute__((visibility("default")))
#define PR_SET_SECCOMP_ 22

uint32_t filter_state;

typedef long system_call(long number, long a, long b, long c, long d, long e, long f);
typedef int process_control(int option, long a, long b, long c, long d);
static system_call *next_syscall;
static process_control *next_prctl;

/* What samples need, and what their threads do: with the arguments that filters look at. The first ones are what
 * waiting for mallow needs, the last ones what tables of all modes do that grow. */
#define WAITS  2
#define GROWTH 4
#define NEEDED(call, ...)                                                                                              \
    {                                                                                                                  \
        .nr = SYS_##call, .arch = ARCH_AUDIT, .args = { __VA_ARGS__ }                                                  \
    }
static const struct seccomp_data needed[] = {
    NEEDED(futex, 4096, FUTEX_WAIT, 2),
    NEEDED(futex, 4096, FUTEX_WAKE, 1),
    NEEDED(madvise, 4096, 4096, MADV_DONTNEED),
    NEEDED(mprotect, 4096, 4096, PROT_READ | PROT_WRITE),
    NEEDED(madvise, 4096, 4096, 23 /* MADV_POPULATE_WRITE */),
    NEEDED(mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, UINT64_MAX, 0),
    NEEDED(mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, UINT64_MAX, 0),
    NEEDED(munmap, 4096, 4096),
    NEEDED(rt_sigprocmask, 2 /* SIG_SETMASK */, 4096, 4096, 8),
};
/* What opens and closes files: exec.c's look at the control file, tables of modules, the file of a child. */
static const struct seccomp_data files[] = {
    NEEDED(openat, (uint64_t)(long)AT_FDCWD, 4096, O_PATH | O_CLOEXEC, 0),
    NEEDED(openat, (uint64_t)(long)AT_FDCWD, 4096, O_PATH | O_CLOEXEC | O_NOFOLLOW, 0),
    NEEDED(openat, (uint64_t)(long)AT_FDCWD, 4096, O_RDONLY | O_CLOEXEC, 0),
    NEEDED(openat, (uint64_t)(long)AT_FDCWD, 4096, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600),
    NEEDED(fstat, 3, 4096),
    NEEDED(mmap, 0, 4096, PROT_READ, MAP_PRIVATE, 3, 0),
    NEEDED(close, 3),
    NEEDED(getpid, 0),
};
/* And a region: it looks at threads and descriptors, waits, and writes its result. */
static const struct seccomp_data regions[] = {
    NEEDED(getdents64, 3, 4096, 2048),
    NEEDED(read, 3, 4096, 1023),
    NEEDED(write, 3, 4096, 256),
    NEEDED(gettid, 0),
    NEEDED(clock_gettime, 1 /* CLOCK_MONOTONIC */, 4096),
    NEEDED(futex, 4096, FUTEX_WAIT, 0),
};
#undef NEEDED

static int allows(const struct sock_fprog *filter, const struct seccomp_data *calls, size_t count, int may_fail) {
    for (size_t i = 0; i < count; i++) {
        uint32_t action = seccomp_action(filter, &calls[i]);
        if (action != SECCOMP_RET_ALLOW && action != SECCOMP_RET_LOG && !(may_fail && action == SECCOMP_RET_ERRNO))
            return 0;
    }
    return 1;
}

/*
 * What an installed filter forbids; `filter` is NULL for the strict mode. Makes no system call: the filter holds
 * already.
 */
COLD static uint32_t forbidden_by(const struct sock_fprog *filter) {
    uint32_t state = FILTER_SEEN;
    if (filter == NULL || !allows(filter, files, sizeof files / sizeof *files, 1))
        state |= FILTER_FORBIDS_FILES;
    if (filter == NULL || !allows(filter, needed, sizeof needed / sizeof *needed, 1))
        state |= FILTER_FORBIDS_SAMPLES;
    if (filter == NULL || !allows(filter, needed + GROWTH, sizeof needed / sizeof *needed - GROWTH, 1))
        __atomic_store_n(&sys_forbidden, 1, __ATOMIC_RELAXED);
    if ((state & FILTER_FORBIDS_FILES) != 0 || !allows(filter, regions, sizeof regions / sizeof *regions, 1))
        state |= FILTER_FORBIDS_REGIONS;
    /* A wait that is refused would spin: an error is no answer. */
    if (filter == NULL || !allows(filter, needed, WAITS, 0))
        state |= FILTER_FORBIDS_WAITS;
    return state;
}

/*
 * Around a system call that may install a filter. Programs probe with calls that fail (libseccomp does at its start),
 * and whether one succeeds is the kernel's to say: the caller may lack no_new_privs, and the filter may be no memory at
 * all. Until then all is forbidden, to other threads too (a filter may be for all of them); afterwards the filter is
 * read, which the kernel has copied and found sound. A child that another thread forks in between keeps the trial, and
 * is recorded no more.
 */
COLD static void filter_tried(void) {
    __atomic_fetch_add(&filter_state, FILTER_TRIAL, __ATOMIC_RELAXED);
}

COLD static void filter_answered(int is_installed, const struct sock_fprog *filter) {
    uint32_t state = is_installed ? forbidden_by(filter) : 0;
    __atomic_fetch_or(&filter_state, state, __ATOMIC_RELAXED);
    __atomic_fetch_sub(&filter_state, FILTER_TRIAL, __ATOMIC_RELAXED);
    if ((state & FILTER_FORBIDS_SAMPLES) != 0 && recording->filtered != NULL)
        recording->filtered();
}

void filter_setup(void) {
    void *symbol = dlsym(RTLD_NEXT, "syscall");
    memcpy(&next_syscall, &symbol, sizeof symbol);
    symbol = dlsym(RTLD_NEXT, "prctl");
    memcpy(&next_prctl, &symbol, sizeof symbol);
}

void filter_go_on_at(uint64_t prctl, uint64_t syscall) {
    memcpy(&next_prctl, &prctl, sizeof prctl);
    memcpy(&next_syscall, &syscall, sizeof syscall);
}

static long with_errno(long result) {
    if (result >= 0 || result < -4095)
        return result;
    errno = (int)-result;
    return -1;
}

static long call_next(long number, long a, long b, long c, long d, long e, long f) {
    if (UNLIKELY(next_syscall == NULL)) /* another library's constructor, before ours */
        filter_setup();
    if (LIKELY(next_syscall != NULL))
        return next_syscall(number, a, b, c, d, e, f);
    return with_errno(arch_syscall(number, a, b, c, d, e, f));
}

/* seccomp(2): a filter for all threads that one of them cannot take is answered by that thread's number, unless its
 * descriptor was asked for. */
COLD static long call_seccomp(long mode, long flags, long filter, long d, long e, long f) {
    filter_tried();
    long result = call_next(SYS_seccomp, mode, flags, filter, d, e, f);
    int is_refused_by_a_thread =
        result > 0 && (flags & SECCOMP_FILTER_FLAG_TSYNC) != 0 && (flags & SECCOMP_FILTER_FLAG_NEW_LISTENER) == 0;
    filter_answered(result >= 0 && !is_refused_by_a_thread,
                    mode == SECCOMP_SET_MODE_FILTER ? (const struct sock_fprog *)filter : NULL);
    return result;
}

/* Where nothing is to be seen to, the C library's own is jumped to: a call may return twice. */
long filter_syscall(long number, long a, long b, long c, long d, long e, long f) {
    if (UNLIKELY(number == SYS_seccomp) && (a == SECCOMP_SET_MODE_STRICT || a == SECCOMP_SET_MODE_FILTER))
        return call_seccomp(a, b, c, d, e, f);
    if (UNLIKELY(number == SYS_exit_group) && recording->exit_at_once != NULL && !attachment_is_late())
        recording->exit_at_once();
    return call_next(number, a, b, c, d, e, f);
}
EXPORT __typeof__(filter_syscall) syscall __attribute__((alias("filter_syscall")));

static int control_next(int option, long a, long b, long c, long d) {
    if (UNLIKELY(next_prctl == NULL))
        filter_setup();
    if (LIKELY(next_prctl != NULL))
        return next_prctl(option, a, b, c, d);
    return (int)with_errno(arch_syscall(SYS_prctl, option, a, b, c, d, 0));
}

int filter_prctl(int option, long a, long b, long c, long d) {
    if (LIKELY(option != PR_SET_SECCOMP_) || (a != SECCOMP_MODE_STRICT && a != SECCOMP_MODE_FILTER))
        return control_next(option, a, b, c, d);
    filter_tried();
    int result = control_next(option, a, b, c, d);
    filter_answered(result == 0, a == SECCOMP_MODE_FILTER ? (const struct sock_fprog *)b : NULL);
    return result;
}
EXPORT __typeof__(filter_prctl) prctl __attribute__((alias("filter_prctl")));

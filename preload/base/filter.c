/* See filter.h. */
#include "base/filter.h"
#include "arch.h"
#include "base/entries.h"

/* Not <unistd.h>, <signal.h> and <sys/prctl.h>: they declare prctl and syscall in another way. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define EXPORT          __attribute__((visibility("default")))
#define PR_SET_SECCOMP_ 22

uint32_t filter_state;
uint32_t filter_forbids_files;
uint32_t filter_seen;

typedef long system_call(long number, long a, long b, long c, long d, long e, long f);
static system_call *next_syscall;

/* What samples need, and what their threads do: with the arguments that filters look at. */
#define NEEDED(call, ...)                                                                                              \
    {                                                                                                                  \
        .nr = SYS_##call, .arch = ARCH_AUDIT, .args = { __VA_ARGS__ }                                                  \
    }
static const struct seccomp_data needed[] = {
    NEEDED(madvise, 4096, 4096, MADV_DONTNEED),
    NEEDED(madvise, 4096, 4096, 23 /* MADV_POPULATE_WRITE */),
    NEEDED(mprotect, 4096, 4096, PROT_READ | PROT_WRITE),
    NEEDED(mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, UINT64_MAX, 0),
    NEEDED(mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, UINT64_MAX, 0),
    NEEDED(munmap, 4096, 4096),
    NEEDED(futex, 4096, FUTEX_WAIT, 2),
    NEEDED(futex, 4096, FUTEX_WAKE, 1),
    NEEDED(rt_sigprocmask, 2 /* SIG_SETMASK */, 4096, 4096, 8),
};
/* What exec.c looks with. */
static const struct seccomp_data looks[] = {
    NEEDED(openat, (uint64_t)(long)AT_FDCWD, 4096, O_PATH | O_CLOEXEC, 0),
    NEEDED(openat, (uint64_t)(long)AT_FDCWD, 4096, O_PATH | O_CLOEXEC | O_NOFOLLOW, 0),
    NEEDED(close, 3),
    NEEDED(getpid, 0),
};
#undef NEEDED

/* What the filter says of a call. Filters of libseccomp, of browsers and of servers are made of these instructions; one
 * with others counts as a refusal. */
static uint32_t verdict(const struct sock_fprog *filter, const struct seccomp_data *call) {
    uint32_t a = 0;
    /* Wide, so that no jump leads back, not in a filter either that the kernel will refuse. */
    for (uint64_t at = 0; at < filter->len; at++) {
        const struct sock_filter *i = &filter->filter[at];
        switch (i->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            if (i->k > sizeof *call - sizeof a)
                return SECCOMP_RET_KILL_PROCESS;
            memcpy(&a, (const char *)call + i->k, sizeof a);
            break;
        case BPF_LD | BPF_IMM:
            a = i->k;
            break;
        case BPF_ALU | BPF_AND | BPF_K:
            a &= i->k;
            break;
        case BPF_JMP | BPF_JA:
            at += i->k;
            break;
        case BPF_JMP | BPF_JEQ | BPF_K:
            at += a == i->k ? i->jt : i->jf;
            break;
        case BPF_JMP | BPF_JGT | BPF_K:
            at += a > i->k ? i->jt : i->jf;
            break;
        case BPF_JMP | BPF_JGE | BPF_K:
            at += a >= i->k ? i->jt : i->jf;
            break;
        case BPF_JMP | BPF_JSET | BPF_K:
            at += (a & i->k) != 0 ? i->jt : i->jf;
            break;
        case BPF_RET | BPF_K:
            return i->k & SECCOMP_RET_ACTION_FULL;
        default:
            return SECCOMP_RET_KILL_PROCESS;
        }
    }
    return SECCOMP_RET_KILL_PROCESS;
}

static int is_lenient(const struct sock_fprog *filter, const struct seccomp_data *calls, size_t count) {
    if (filter == NULL || filter->filter == NULL)
        return 1; /* the kernel refuses it */
    for (size_t i = 0; i < count; i++) {
        uint32_t action = verdict(filter, &calls[i]);
        if (action != SECCOMP_RET_ALLOW && action != SECCOMP_RET_LOG && action != SECCOMP_RET_ERRNO)
            return 0;
    }
    return 1;
}

/* Before it is installed. One that the kernel then refuses counts too. */
COLD static void comes(int is_filter, const struct sock_fprog *filter) {
    __atomic_store_n(&filter_seen, 1, __ATOMIC_RELAXED);
    if (!is_filter || !is_lenient(filter, looks, sizeof looks / sizeof *looks))
        __atomic_store_n(&filter_forbids_files, 1, __ATOMIC_RELAXED);
    if (next_syscall == NULL)
        return;
    if (filter_is_none())
        __atomic_store_n(&filter_state, FILTER_LENIENT, __ATOMIC_RELAXED);
    if (is_filter && is_lenient(filter, needed, sizeof needed / sizeof *needed))
        return;
    if (recording->over != NULL)
        recording->over(MALLOW_OVER_FILTER);
    __atomic_store_n(&filter_state, FILTER_STRICT, __ATOMIC_RELAXED);
}

void filter_setup(void) {
    void *symbol = dlsym(RTLD_NEXT, "syscall");
    memcpy(&next_syscall, &symbol, sizeof symbol);
}

static long with_errno(long result) {
    if (result >= 0 || result < -4095)
        return result;
    errno = (int)-result;
    return -1;
}

/* Where nothing is to be seen to, the C library's own is jumped to: a call may return twice. */
EXPORT long syscall(long number, long a, long b, long c, long d, long e, long f) {
    if (UNLIKELY(number == SYS_seccomp) && (a == SECCOMP_SET_MODE_STRICT || a == SECCOMP_SET_MODE_FILTER))
        comes(a == SECCOMP_SET_MODE_FILTER, (const struct sock_fprog *)c);
    if (UNLIKELY(number == SYS_exit_group) && recording->exit_at_once != NULL)
        recording->exit_at_once();
    if (LIKELY(next_syscall != NULL))
        return next_syscall(number, a, b, c, d, e, f);
    return with_errno(arch_syscall(number, a, b, c, d, e, f));
}

EXPORT int prctl(int option, long a, long b, long c, long d) {
    if (UNLIKELY(option == PR_SET_SECCOMP_) && (a == SECCOMP_MODE_STRICT || a == SECCOMP_MODE_FILTER))
        comes(a == SECCOMP_MODE_FILTER, (const struct sock_fprog *)b);
    return (int)with_errno(arch_syscall(SYS_prctl, option, a, b, c, d, 0));
}

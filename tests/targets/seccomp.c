/*
 * seccomp HOW: forbids itself all system calls but those that glibc's malloc and threads need, then allocates much.
 *   kill     a forbidden call ends the process
 *   refuse   a forbidden call fails with EPERM
 *   threads  as kill, with the calls that threads need, and threads
 *   strict   the kernel's strict mode: read, write and exit alone; blocks are reused, never new
 *   strict-long  the same for more than a second
 *   closed   a forbidden call ends the process, and only a heap that grows is allowed
 *   regions  as threads, and a measured region before and one after
 *   no-wait  the same at once, with few allocations and a block that stays
 *   probe    calls that install no filter, as libraries make them to find out what the kernel has, and a block that is lost
 */
#include "../../preload/include/mallow.h"
#include "target.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

#define ALLOW(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void forbid(int threads, unsigned otherwise) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        /* What glibc's malloc needs. */
        ALLOW(brk),
        ALLOW(mmap),
        ALLOW(munmap),
        ALLOW(mremap),
        ALLOW(mprotect),
        ALLOW(madvise),
        ALLOW(futex),
        ALLOW(getrandom),
        ALLOW(sched_getaffinity),
        /* What the program needs. */
        ALLOW(write),
        ALLOW(exit_group),
        ALLOW(rt_sigreturn),
        /* What threads need; glibc's allocator reads how many processors there are before it makes an arena. */
        BPF_STMT(BPF_LD | BPF_IMM, (unsigned)threads),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, otherwise),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(clone3),
        ALLOW(clone),
        ALLOW(set_robust_list),
        ALLOW(rseq),
        ALLOW(rt_sigprocmask),
        ALLOW(exit),
        ALLOW(sched_yield),
        ALLOW(rt_sigaction),
        ALLOW(openat),
        ALLOW(read),
        ALLOW(close),
        BPF_STMT(BPF_RET | BPF_K, otherwise),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

/* For malloc of one thread, and no more. By syscall(), as libraries do. */
static void close_in(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(brk),
        ALLOW(mmap),
        ALLOW(munmap),
        ALLOW(mremap),
        ALLOW(write),
        ALLOW(exit_group),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0);
}

/* A jump that would lead back to itself, if positions had 32 bits: the kernel refuses it. */
static void be_refused(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_JMP | BPF_JA, UINT32_MAX),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == -1 && errno == EINVAL);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL) == -1 && errno == EFAULT);
}

/* Each fails: for its flags, for its address, for want of no_new_privs (root has another right). */
static void probe(void) {
    struct sock_filter filter[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
    struct sock_fprog program = {1, filter}, empty = {0, filter};
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL) == -1 && errno == EINVAL);
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, NULL) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (void *)1) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, ~0u, &program) == -1 && errno == EINVAL);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &empty) == -1 && errno == EINVAL);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL) == -1 && errno == EFAULT);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, (void *)1) == -1 && errno == EFAULT);
}

static void reuse(void) {
    void *blocks[64];
    for (size_t i = 0; i < 64; i++)
        blocks[i] = keep(malloc(100 + 8 * i));
    for (int i = 0; i < 64; i++)
        free(blocks[i]);
}

/* Rounds of reuse() that take longer than a second: what is done once in a while is done in them. */
static long rounds(void) {
    long count = 0;
    for (clock_t end = clock() + 13 * CLOCKS_PER_SEC / 10; clock() < end; count += 100)
        for (int i = 0; i < 100; i++)
            reuse();
    return count;
}

static void *work(void *argument) {
    uint64_t sum = churn(20000, (unsigned)(uintptr_t)argument);
    for (size_t i = 0; i < 20; i++)
        free(keep(malloc((200u << 10) * (i + 1))));
    return (void *)(uintptr_t)sum;
}

static long measured(void *context) {
    reuse();
    (void)context;
    return 0;
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    const char *how = arguments[1];
    uint64_t sum = (uint64_t)(uintptr_t)work((void *)1);
    int regions = !strcmp(how, "regions"), threads = regions || !strcmp(how, "threads");
    if (regions)
        mallow_measure("before", measured, NULL);
    if (!strcmp(how, "no-wait")) {
        CHECK(keep(malloc(1000)) != NULL && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
        close_in();
        reuse();
        say("no-wait %llu\n", (unsigned long long)sum);
        return 3;
    }
    if (!strcmp(how, "probe")) {
        probe();
        CHECK(keep(malloc(1000)) != NULL);
        for (int i = 0; i < 300; i++)
            sum += churn(1000, (unsigned)i);
        say("probe %llu\n", (unsigned long long)sum);
        return 3;
    }
    if (!strcmp(how, "closed")) {
        long count = rounds();
        CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
        be_refused();
        close_in();
        for (long i = 0; i < count; i++)
            reuse();
        sum += (uint64_t)(uintptr_t)work((void *)2);
        say("closed %llu\n", (unsigned long long)sum);
        return 3;
    }
    if (!strncmp(how, "strict", 6)) {
        long count = !strcmp(how, "strict-long") ? rounds() : 3;
        CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
        for (long i = 0; i < count; i++)
            reuse();
        say("strict %llu\n", (unsigned long long)sum);
        syscall(SYS_exit, 4);
    }
    forbid(threads, !strcmp(how, "refuse") ? SECCOMP_RET_ERRNO | EPERM : SECCOMP_RET_KILL_PROCESS);
    if (regions)
        mallow_measure("after", measured, NULL);
    sum += (uint64_t)(uintptr_t)work((void *)2);
    /* More than any buffer holds. */
    for (int i = 0; i < 300; i++)
        sum += churn(1000, (unsigned)i);
    if (threads) {
        pthread_t thread[24];
        for (uintptr_t i = 0; i < 24; i++)
            CHECK(pthread_create(&thread[i], NULL, work, (void *)i) == 0);
        for (int i = 0; i < 24; i++) {
            void *more;
            CHECK(pthread_join(thread[i], &more) == 0);
            sum += (uint64_t)(uintptr_t)more;
        }
    }
    say("%s %llu\n", how, (unsigned long long)sum);
    return 3;
}

/*
 * crash HOW: a program that a signal ends, in a function `culprit` as a rule. It prints first what it sees of the actions of two
 * signals: `default` where both are. HOW is where its error is; `handled`, `restored`, `chained` and `ignored` have handlers of their
 * own. build: -fno-builtin
 */
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct node {
    struct node *next;
    long values[4];
};

static struct node *volatile none;
static volatile int zero, least = INT_MIN, minus_one = -1;
static char other_stack[1 << 16];
static sigjmp_buf back;

__attribute__((noinline)) static void culprit(volatile struct node *node) {
    node->values[1] = 1; /* 16 bytes into it */
}

__attribute__((noinline)) static int culprit_divides(int number) {
    return number / zero;
}

__attribute__((noinline)) static int culprit_overflows(void) {
    return least / minus_one;
}

#ifdef __x86_64__
/* 0.0 / 0.0 where invalid operations raise a signal. */
__attribute__((noinline)) static int culprit_without_result(void) {
    unsigned control = 0x1f80 & ~0x80u;
    __asm__ volatile("ldmxcsr %0" : : "m"(control));
    volatile double number = zero;
    return number / number > 0;
}

__attribute__((noinline)) static void culprit_misaligned(char *block) {
    __asm__ volatile("movaps %%xmm0, (%0)" : : "r"(block + 4) : "memory");
}
#endif

/* getppid is forbidden. */
__attribute__((noinline)) static void culprit_is_forbidden(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {4, filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
    getppid();
}

__attribute__((noinline)) static void culprit_far(volatile char *block, long far) {
    block[far] = 1;
}

__attribute__((noinline)) static int culprit_recurses(volatile int depth) {
    volatile char room[1024];
    room[depth % 1024] = 1;
    return depth < 0 ? 0 : culprit_recurses(depth + 1) + room[1];
}

static void jump_back(int number) {
    (void)number;
    siglongjmp(back, 1);
}

static void restore(int number, siginfo_t *info, void *context) {
    (void)info;
    (void)context;
    printf("handler restores\n");
    fflush(stdout);
    signal(number, SIG_DFL);
}

static struct sigaction before;
static void chain(int number, siginfo_t *info, void *context) {
    (void)info;
    (void)context;
    printf("handler, before it %s\n", before.sa_handler == SIG_DFL ? "default" : "another");
    fflush(stdout);
    sigaction(number, &before, NULL);
}

static void *in_thread(void *nothing) {
    culprit(none);
    return nothing;
}

static void recover(void) {
    if (sigsetjmp(back, 1) == 0)
        culprit(none);
    printf("recovered\n");
    fflush(stdout);
}

int main(int count, char **words) {
    const char *how = count > 1 ? words[1] : "";
    if (strcmp(how, "first") == 0) /* of no block, and no stream */
        culprit(none);
    struct sigaction seen;
    sigaction(SIGSEGV, NULL, &seen);
    int is_default = seen.sa_handler == SIG_DFL && signal(SIGBUS, SIG_DFL) == SIG_DFL;
    printf("%s\n", is_default ? "default" : "another");
    fflush(stdout);
    char *block = malloc(48);
    memset(block, 1, 48);
    if (strcmp(how, "null") == 0)
        culprit(none);
    if (strcmp(how, "behind") == 0)
        culprit_far(block, 64l << 20);
    if (strcmp(how, "divide") == 0)
        return culprit_divides(count);
    if (strcmp(how, "quotient") == 0)
        return culprit_overflows();
#ifdef __x86_64__
    if (strcmp(how, "number") == 0)
        return culprit_without_result();
    if (strcmp(how, "misaligned") == 0)
        culprit_misaligned(block);
#endif
    if (strcmp(how, "forbidden") == 0)
        culprit_is_forbidden();
    if (strcmp(how, "abort") == 0)
        abort();
    if (strcmp(how, "readonly") == 0)
        culprit(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (strcmp(how, "recurse") == 0)
        return culprit_recurses(1);
    if (strcmp(how, "used-up") == 0) {
        stack_t other = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
        sigaltstack(&other, NULL);
        return culprit_recurses(1);
    }
    if (strcmp(how, "invalid") == 0)
        culprit((struct node *)0x4141414141414141);
    if (strcmp(how, "terminate") == 0)
        kill(getpid(), SIGTERM);
    if (strcmp(how, "thread") == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, in_thread, NULL);
        pthread_join(thread, NULL);
    }
    if (strcmp(how, "child") == 0) {
        pid_t child = fork();
        if (child == 0) {
            free(malloc(8));
            culprit(none);
        }
        int status;
        waitpid(child, &status, 0);
        printf("child ended by %d\n", WTERMSIG(status));
    }
    if (strcmp(how, "handled") == 0) {
        signal(SIGSEGV, jump_back);
        recover();
        recover();
    }
    if (strcmp(how, "restored") == 0 || strcmp(how, "chained") == 0) {
        struct sigaction own = {.sa_sigaction = how[0] == 'r' ? restore : chain, .sa_flags = SA_SIGINFO};
        sigaction(SIGSEGV, &own, &before);
        culprit(none);
    }
    if (strcmp(how, "ignored") == 0) {
        signal(SIGABRT, SIG_IGN);
        raise(SIGABRT);
        printf("ignored\n");
    }
    free(block);
    return 0;
}

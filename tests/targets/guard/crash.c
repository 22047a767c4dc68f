/*
 * crash HOW: a program that a signal ends, in a function `culprit` as a rule. It prints first what it sees of the actions of two
 * signals: `default` where both are. HOW is where its error is; `handled`, `restored`, `chained` and `ignored` have handlers of their
 * own. build: -fno-builtin
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct node {
    struct node *next;
    long values[4];
};

static struct node *volatile none;
static volatile int zero;
static sigjmp_buf back;

__attribute__((noinline)) static void culprit(volatile struct node *node) {
    node->values[1] = 1; /* 16 bytes into it */
}

__attribute__((noinline)) static int culprit_divides(int number) {
    return number / zero;
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
    if (strcmp(how, "abort") == 0)
        abort();
    if (strcmp(how, "readonly") == 0)
        culprit(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (strcmp(how, "recurse") == 0)
        return culprit_recurses(1);
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

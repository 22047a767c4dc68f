/*
 * own_handler HOW: a program with a handler for SIGSEGV of its own, which is there before the first block (early), or comes between two
 * blocks (late); on an alternate stack (stack); for what kill sends (sent); or with none, so that it ends by a null pointer (none).
 * Each reads a block that was freed, by `culprit`, before and after what is the handler's own. Prints what the handler saw.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static sigjmp_buf back;
static volatile int seen, blocked;

static void on_fault(int number, siginfo_t *info, void *context) {
    (void)context;
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    blocked = sigismember(&mask, SIGSEGV) == 1 && sigismember(&mask, SIGUSR1) == 1 && sigismember(&mask, SIGUSR2) == 0;
    if (number == SIGSEGV && (info->si_addr == NULL || info->si_code <= 0))
        seen++;
    if (info->si_code > 0)
        siglongjmp(back, 1);
}

static void install(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGUSR1);
    sigaction(SIGSEGV, &action, NULL);
}

__attribute__((noinline)) static int culprit(volatile char *block) {
    return block[3];
}

static int misuse(void) {
    char *block = malloc(100);
    memset(block, 1, 100);
    free(block);
    return culprit(block);
}

static void fault(void) {
    if (sigsetjmp(back, 1) == 0)
        *(volatile int *)NULL = 1;
}

int main(int count, char **words) {
    const char *how = count > 1 ? words[1] : "";
    static char stack[1 << 16];
    if (strcmp(how, "early") == 0 || strcmp(how, "stack") == 0 || strcmp(how, "sent") == 0)
        install();
    if (strcmp(how, "stack") == 0)
        sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
    int sum = misuse();
    if (strcmp(how, "late") == 0) {
        install();
        free(malloc(10));
    }
    if (strcmp(how, "sent") == 0)
        raise(SIGSEGV);
    else
        fault();
    sum += misuse();
    printf("handler saw %d, blocked %d, sum %d\n", seen, blocked, sum);
    return 0;
}

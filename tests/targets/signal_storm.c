/* build: safe_allocator.so */
/*
 * signal_storm HOW MILLISECONDS: SIGALRM and SIGPROF come every 100 us and their handlers allocate, while the program
 * and its threads do nothing else either.
 *   plain      handlers return
 *   altstack   handlers run on an alternate stack of their own
 *   jump       every third handler leaves with siglongjmp, out of whatever was going on
 *   threads    signals are also sent from thread to thread
 */
#include "target.h"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <time.h>

static atomic_ulong handled, jumped;
static sigjmp_buf back;
static volatile sig_atomic_t may_jump;
static atomic_int stop;
static int jumps;

__attribute__((noinline)) static unsigned deeper(unsigned depth) {
    char *block = malloc(depth * 10 + 1);
    block[0] = (char)depth;
    unsigned below = depth ? deeper(depth - 1) : 0;
    CHECK(block[0] == (char)depth);
    free(block);
    return below + 1;
}

static void handler(int signal) {
    int saved = errno;
    (void)signal;
    CHECK(deeper(5) == 6);
    char *block = realloc(NULL, 50);
    block = realloc(block, 500);
    free(block);
    unsigned long mine = ++handled;
    errno = saved;
    if (jumps && may_jump && mine % 3 == 0) {
        may_jump = 0;
        jumped++;
        siglongjmp(back, 1);
    }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static void *other(void *main_thread) {
    for (unsigned i = 0; !stop; i++) {
        CHECK(deeper(i % 40) == i % 40 + 1);
        if (i % 200 == 0)
            pthread_kill(*(pthread_t *)main_thread, SIGUSR1);
    }
    return NULL;
}

int main(int count, char **arguments) {
    CHECK(count == 3);
    const char *how = arguments[1];
    double end = now() + atof(arguments[2]);
    int flags = SA_RESTART;
    if (!strcmp(how, "altstack")) {
        stack_t stack = {.ss_sp = malloc(256 << 10), .ss_size = 256 << 10};
        CHECK(sigaltstack(&stack, NULL) == 0);
        flags |= SA_ONSTACK;
    }
    jumps = !strcmp(how, "jump");
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags | SA_NODEFER};
    /* Handlers nest, but not without end. */
    sigfillset(&action.sa_mask);
    CHECK(sigaction(SIGALRM, &action, NULL) == 0 && sigaction(SIGPROF, &action, NULL) == 0 &&
          sigaction(SIGUSR1, &action, NULL) == 0);
    pthread_t self = pthread_self(), threads[3];
    int started = 0;
    if (!strcmp(how, "threads"))
        for (; started < 3; started++)
            CHECK(pthread_create(&threads[started], NULL, other, &self) == 0);
    struct itimerval often = {{0, 100}, {0, 100}};
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0 && setitimer(ITIMER_PROF, &often, NULL) == 0);
    for (volatile unsigned i = 0; now() < end; i++) {
        if (jumps && sigsetjmp(back, 1))
            continue;
        may_jump = 1;
        CHECK(deeper(i % 60) == i % 60 + 1);
        may_jump = 0;
    }
    struct itimerval never = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0 && setitimer(ITIMER_PROF, &never, NULL) == 0);
    stop = 1;
    for (int i = 0; i < started; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(handled > 20 && (!jumps || jumped > 3));
    /* What comes after the storm must be seen as ever. */
    for (int i = 0; i < 5000; i++)
        keep(malloc(77777));
    say("the storm is over\n");
    return 0;
}

/* Sampling and signal handlers: those that interrupt the work on a sample, stay in it, or leave it. */
#include "samples.h"
#include "test.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>

static struct reading reading;

static void finish(void) {
    reading_finish(&reading);
    CHECK(reading.status == 0);
}

static void run(const char *scenario) {
    reading_start(&reading, scenario, NULL);
    finish();
}

static volatile sig_atomic_t handled;
static void *volatile from_handler[4];

static void allocate_in_handler(int number) {
    (void)number;
    unsigned at = (unsigned)handled++ % 4;
    free(from_handler[at]);
    from_handler[at] = malloc(500);
    memset(from_handler[at], 3, 500);
}

static void storm(void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler};
    struct itimerval every = {{0, 200}, {0, 200}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
}

/* glibc's own malloc may not be called in a handler that interrupts it: all blocks here are picked. */
SCENARIO(handlers_allocate) {
    storm(allocate_in_handler);
    /* On a busy machine a handler runs more often than this loop. */
    for (int rounds = 0; rounds < 2000 || handled < 2000; rounds++) {
        char *a = malloc(4000);
        a = realloc(a, 6000);
        free(a);
    }
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
}

TEST(handlers_may_interrupt_the_work_on_a_sample) {
    samples_make(&reading, 1);
    run("handlers_allocate");
    const struct image *image = reading_only(&reading);
    CHECK(samples_of(image)->begun > 4000 && samples_live(image) <= 4);
    samples_check_losses(image);
}

static volatile unsigned long others;
static volatile int was_stuck;

/* Stays until the other thread has gone on: at once, or after the second for which it waits for the lock. */
static void linger(int number) {
    (void)number;
    struct timespec before, after;
    unsigned long until = others + 5;
    clock_gettime(CLOCK_MONOTONIC, &before);
    while (others < until)
        sched_yield();
    clock_gettime(CLOCK_MONOTONIC, &after);
    was_stuck |= after.tv_sec * 1000 + after.tv_nsec / 1000000 > before.tv_sec * 1000 + before.tv_nsec / 1000000 + 500;
    handled++;
}

static void *go_on(void *stop) {
    while (!*(volatile int *)stop) {
        char *blocks[50];
        for (int i = 0; i < 50; i++)
            blocks[i] = malloc(2000);
        for (int i = 0; i < 50; i++)
            free(blocks[i]);
        others++;
    }
    return NULL;
}

SCENARIO(handlers_linger) {
    static int stop;
    sigset_t alarm;
    pthread_t thread;
    for (int i = 0; i < 100; i++)
        free(malloc(3000));
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm, NULL); /* in the thread, for good */
    CHECK(pthread_create(&thread, NULL, go_on, &stop) == 0);
    pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
    /* One alarm after the other, as the next one would be there before a handler that lingers ends: nothing else would
     * ever run. */
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = linger}, NULL);
    for (int armed = -1; !was_stuck && handled < 100;) {
        if (armed != handled) {
            armed = handled;
            setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 50 + armed}}, NULL);
        }
        for (int i = 0; i < 100; i++)
            free(malloc(3000));
    }
    stop = 1;
    pthread_join(thread, NULL);
    for (int i = 0; i < 100; i++)
        free(malloc(777));
}

TEST(a_thread_that_is_stopped_within_a_sample_stops_sampling_while_it_is) {
    samples_make(&reading, 1);
    run("handlers_linger");
    const struct image *image = reading_only(&reading);
    const struct mallow_sampling *s = samples_of(image);
    CHECK(samples_live(image) <= 4 && s->begun > 200);
    for (uint64_t i = s->ended; i > s->ended - 100; i--)
        CHECK(sample_end(image, i)->sample.size == 777);
}

static sigjmp_buf out;

static void jump_out(int number) {
    (void)number;
    siglongjmp(out, 1);
}

/* The handler leaves by longjmp whatever it interrupted, the work on a sample too: the program goes on. glibc's malloc
 * does not stand that; the tests' own allocator does. */
static __attribute__((noinline)) void allocate_until_it_jumps(void) {
    for (;;)
        free(malloc(4000));
}

SCENARIO(handlers_jump) {
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    storm(jump_out);
    for (volatile int jumps = 0; jumps < 300;) {
        if (sigsetjmp(out, 1) == 0)
            allocate_until_it_jumps();
        /* Further out than what was left: so that is seen to be left. */
        sigprocmask(SIG_BLOCK, &alarm, NULL);
        free(malloc(4000));
        sigprocmask(SIG_UNBLOCK, &alarm, NULL);
        jumps++;
    }
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
    free(malloc(4000));
}

TEST(a_handler_that_jumps_out_stops_nobody) {
    samples_make(&reading, 1);
    reading_start(&reading, "handlers_jump", getenv("TEST_NEXT_ALLOCATOR"));
    finish();
    /* Of so many jumps some left a change half done, and that is reported. */
    CHECK(samples_of(reading_only(&reading))->over == MALLOW_OVER_LEFT);
}

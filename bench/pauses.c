/*
 * pauses THREADS: how long a program stands still, and what its allocations cost. One thread makes rounds of a malloc
 * and a free of 128 bytes without end; the others allocate and sleep in turn. Each line of input is answered with the
 * longest time between two rounds, the longest one without the time in which the thread waited for a processor, and the
 * processor time of a round, all since the line before and in nanoseconds.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Between two rounds; a shorter time is not looked into. */
#define LONG 200000

static atomic_long longest, longest_stop, rounds;
static void *volatile sink;

static long read_clock(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

/*
 * How long the calling thread has waited for a processor: the second number of proc_pid_schedstat. 0 where the kernel
 * does not count.
 */
static long read_waited(int schedstat) {
    char text[128];
    ssize_t length = pread(schedstat, text, sizeof text - 1, 0);
    long waited = 0;
    text[length > 0 ? length : 0] = 0;
    return sscanf(text, "%*d %ld", &waited) == 1 ? waited : 0;
}

static void raise_to(atomic_long *most, long value) {
    if (value > atomic_load_explicit(most, memory_order_relaxed))
        atomic_store(most, value);
}

static void *measures(void *unused) {
    int schedstat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    long waited = read_waited(schedstat);
    for (long last = read_clock(CLOCK_MONOTONIC);;) {
        /* Not by way of sink: another thread may write there in between. */
        void *block = malloc(128);
        sink = block;
        free(block);
        long time = read_clock(CLOCK_MONOTONIC);
        raise_to(&longest, time - last);
        if (time - last > LONG) {
            long now = read_waited(schedstat);
            raise_to(&longest_stop, time - last - (now - waited));
            waited = now;
            time = read_clock(CLOCK_MONOTONIC);
        }
        last = time;
        atomic_store_explicit(&rounds, atomic_load_explicit(&rounds, memory_order_relaxed) + 1, memory_order_relaxed);
    }
    return unused;
}

static void *sleeps(void *unused) {
    for (struct timespec time = {0, 20000000};; nanosleep(&time, NULL)) {
        void *block = malloc(100);
        sink = block;
        free(block);
    }
    return unused;
}

int main(int count, char **arguments) {
    int threads = count > 1 ? atoi(arguments[1]) : 1;
    setbuf(stdout, NULL);
    clockid_t clock = CLOCK_MONOTONIC;
    for (int i = 0; i < threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, i == 0 ? measures : sleeps, NULL) != 0)
            return 1;
        if (i == 0 && pthread_getcpuclockid(thread, &clock) != 0)
            return 1;
    }
    puts("ready");
    long time = read_clock(clock), done = rounds;
    for (char c; read(0, &c, 1) == 1;) {
        long now = read_clock(clock), all = rounds;
        printf("%ld %ld %.3f\n", atomic_exchange(&longest, 0), atomic_exchange(&longest_stop, 0),
               (double)(now - time) / (double)(all > done ? all - done : 1));
        time = now;
        done = all;
    }
    return 0;
}

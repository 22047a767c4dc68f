/*
 * pauses THREADS: how long a program stands still, and what its allocations cost. One thread makes rounds of a malloc and a free
 * of 128 bytes without end; the others allocate and sleep in turn. Each line of input is answered with the longest time between
 * two rounds and the processor time of a round since the line before, in nanoseconds.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static atomic_long longest, rounds;
static void *volatile sink;

static long read_clock(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void *measures(void *unused) {
    for (long last = read_clock(CLOCK_MONOTONIC);;) {
        /* Not by way of sink: another thread may write there in between. */
        void *block = malloc(128);
        sink = block;
        free(block);
        long time = read_clock(CLOCK_MONOTONIC);
        if (time - last > atomic_load_explicit(&longest, memory_order_relaxed))
            atomic_store(&longest, time - last);
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
        printf("%ld %.3f\n", atomic_exchange(&longest, 0),
               (double)(now - time) / (double)(all > done ? all - done : 1));
        time = now;
        done = all;
    }
    return 0;
}

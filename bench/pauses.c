/*
 * pauses THREADS: how long a program stands still. One thread allocates without end and notes the longest time between two of
 * its rounds; the others allocate and sleep in turn. Each line of input is answered with that time in nanoseconds, and it
 * begins anew.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static atomic_long longest;
static void *volatile sink;

static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void *measures(void *unused) {
    for (long last = now();;) {
        sink = malloc(100);
        free(sink);
        long time = now();
        if (time - last > atomic_load(&longest))
            atomic_store(&longest, time - last);
        last = time;
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
    for (int i = 0; i < threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, i == 0 ? measures : sleeps, NULL) != 0)
            return 1;
    }
    puts("ready");
    for (char c; read(0, &c, 1) == 1;)
        printf("%ld\n", atomic_exchange(&longest, 0));
    return 0;
}

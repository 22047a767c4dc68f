/*
 * pair SIZE THREADS PAIRS: what one malloc and its free cost, in nanoseconds, PAIRS times on each of THREADS threads.
 * The time is the longest thread's, over its pairs: threads that disturb each other show. Printed are wall time and the
 * thread's own processor time, which does not count when the machine gave the processor to somebody else.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MAX_THREADS 64

struct work {
    pthread_t thread;
    pthread_barrier_t *together;
    size_t size;
    long pairs;
    double wall;
    double processor;
};

static double now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void *work(void *argument) {
    struct work *w = argument;
    pthread_barrier_wait(w->together);
    double wall = now(CLOCK_MONOTONIC);
    double processor = now(CLOCK_THREAD_CPUTIME_ID);
    for (long i = 0; i < w->pairs; i++) {
        char *block = malloc(w->size);
        /* The compiler may not drop a pair whose pointer it cannot follow. */
        __asm__ volatile("" : "+r"(block) : : "memory");
        *(volatile char *)block = 1;
        free(block);
    }
    w->wall = now(CLOCK_MONOTONIC) - wall;
    w->processor = now(CLOCK_THREAD_CPUTIME_ID) - processor;
    return NULL;
}

int main(int argc, char **argv) {
    static struct work works[MAX_THREADS];
    long size = argc == 4 ? atol(argv[1]) : 0;
    long threads = argc == 4 ? atol(argv[2]) : 0;
    long pairs = argc == 4 ? atol(argv[3]) : 0;
    if (size < 1 || threads < 1 || threads > MAX_THREADS || pairs < 1) {
        fprintf(stderr, "usage: pair SIZE THREADS PAIRS (at most %d threads)\n", MAX_THREADS);
        return 2;
    }
    pthread_barrier_t together;
    pthread_barrier_init(&together, NULL, (unsigned)threads);
    for (long i = 0; i < threads; i++) {
        works[i] = (struct work){.together = &together, .size = (size_t)size, .pairs = pairs};
        if (i > 0 && pthread_create(&works[i].thread, NULL, work, &works[i]) != 0) {
            perror("pthread_create");
            return 1;
        }
    }
    work(&works[0]);
    double wall = works[0].wall;
    double processor = works[0].processor;
    for (long i = 1; i < threads; i++) {
        pthread_join(works[i].thread, NULL);
        wall = works[i].wall > wall ? works[i].wall : wall;
        processor = works[i].processor > processor ? works[i].processor : processor;
    }
    printf("wall %.3f\nprocessor %.3f\n", wall / (double)pairs, processor / (double)pairs);
    return 0;
}

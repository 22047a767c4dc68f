/*
 * everything: two processes with several threads each, which do all that is counted: small and large blocks, short and
 * long lives, blocks freed at once, later, by other threads, by realloc, and never. The counts are the same in each run.
 * Prints the id of each thread.
 */
#include "target.h"
#include <pthread.h>
#include <sys/wait.h>

enum { ROUNDS = 40, KEPT = 5, THREADS = 3 };

static pthread_barrier_t together;

static void print_id(void) {
    say("thread %d\n", gettid());
}

__attribute__((noinline)) static void temporary(size_t size) {
    free(keep(malloc(size)));
}

__attribute__((noinline)) static void *grown(void) {
    char *block = NULL;
    for (size_t size = 16; size <= 4096; size *= 2)
        block = keep(realloc(block, size));
    return block;
}

__attribute__((noinline)) static void *zeroed(size_t count) {
    return keep(calloc(count, 24));
}

__attribute__((noinline)) static void leak(size_t size) {
    keep(malloc(size));
}

/* Returns blocks that whoever waits for the thread frees. */
static void *work(void *argument) {
    uintptr_t number = (uintptr_t)argument;
    print_id();
    void **handed = malloc(KEPT * sizeof *handed);
    pthread_barrier_wait(&together);
    for (int round = 0; round < ROUNDS; round++) {
        void *held = keep(malloc(100 * number + (size_t)round));
        temporary(32);
        temporary(0);
        void *buffer = grown();
        void *list = zeroed(number);
        if (round % 10 == 0)
            usleep(2000);
        free(buffer);
        free(held);
        free(list);
        if (round < KEPT)
            handed[round] = keep(malloc(10000 + number));
    }
    leak(7 * number);
    return handed;
}

static void phase(int threads) {
    pthread_t thread[THREADS];
    CHECK(pthread_barrier_init(&together, NULL, (unsigned)threads) == 0);
    for (uintptr_t i = 0; i < (uintptr_t)threads; i++)
        CHECK(pthread_create(&thread[i], NULL, work, (void *)(i + 1)) == 0);
    for (int i = 0; i < threads; i++) {
        void **handed;
        CHECK(pthread_join(thread[i], (void **)&handed) == 0);
        for (int k = 0; k < KEPT; k++)
            free(handed[k]);
        free(handed);
    }
}

int main(void) {
    print_id();
    void *inherited = keep(malloc(555));
    phase(THREADS);
    leak(200000);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        print_id();
        free(inherited);
        phase(2);
        leak(3000);
        return 0;
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    free(inherited);
    phase(1);
    temporary(50000);
    return 0;
}

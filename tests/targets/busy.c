/* busy THREADS ROUNDS: the plain target: allocates in as many threads, prints a sum that depends on nothing else. */
#include "target.h"
#include <pthread.h>

static int rounds;

static void *work(void *argument) {
    uint64_t sum = 0;
    for (int i = 0; i < rounds; i++)
        sum += churn(100, (unsigned)(uintptr_t)argument * 1000 + (unsigned)i);
    return (void *)(uintptr_t)sum;
}

int main(int count, char **arguments) {
    CHECK(count == 3);
    int threads = atoi(arguments[1]);
    rounds = atoi(arguments[2]);
    uint64_t sum = (uint64_t)(uintptr_t)work(NULL);
    pthread_t thread[256];
    CHECK(threads <= 256);
    int started = 0;
    for (uintptr_t i = 0; i < (uintptr_t)threads; i++)
        started += pthread_create(&thread[started], NULL, work, (void *)(i + 1)) == 0;
    for (int i = 0; i < started; i++) {
        void *more;
        CHECK(pthread_join(thread[i], &more) == 0);
        sum += (uint64_t)(uintptr_t)more;
    }
    say("%d threads: %llu\n", started, (unsigned long long)sum);
    return 0;
}

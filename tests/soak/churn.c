/* Threads that come and go, children, and a sum that depends on every block: `churn SECONDS`. What it holds stays
 * the same; what it prints does not depend on how long it takes. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BLOCKS = 2000, ROUNDS = 40, THREADS = 4 };

static atomic_ulong wrong;

static void *churn(void *seed) {
    unsigned char *blocks[BLOCKS / 10] = {0};
    size_t sizes[BLOCKS / 10] = {0};
    uint64_t random = (uintptr_t)seed | 1;
    for (int i = 0; i < BLOCKS * ROUNDS / 10; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        size_t at = random % (BLOCKS / 10);
        unsigned char mark = (unsigned char)(at * 7 + 1);
        for (size_t k = 0; k < sizes[at]; k += 97)
            wrong += blocks[at][k] != mark;
        size_t size = 1 + random % (random % 50 == 0 ? 300000 : 3000);
        if (random % 3 == 0) {
            unsigned char *bigger = realloc(blocks[at], size);
            if (bigger == NULL)
                abort();
            blocks[at] = bigger;
        } else {
            free(blocks[at]);
            blocks[at] = random % 2 ? malloc(size) : calloc(1, size);
            if (blocks[at] == NULL)
                abort();
        }
        memset(blocks[at], mark, size);
        sizes[at] = size;
    }
    for (size_t at = 0; at < BLOCKS / 10; at++)
        free(blocks[at]);
    return NULL;
}

int main(int argc, char **argv) {
    time_t end = time(NULL) + (argc > 1 ? atol(argv[1]) : 10);
    unsigned long rounds = 0, failed = 0;
    while (time(NULL) < end) {
        pthread_t threads[THREADS];
        for (uintptr_t i = 0; i < THREADS; i++)
            if (pthread_create(&threads[i], NULL, churn, (void *)(rounds * 8 + i + 1)) != 0)
                abort();
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        if (rounds++ % 4 == 0) {
            pid_t child = fork();
            if (child == 0) {
                churn((void *)(uintptr_t)rounds);
                _exit(wrong != 0);
            }
            int status = -1;
            waitpid(child, &status, 0);
            failed += status != 0;
        }
        usleep(20000);
    }
    printf("wrong %lu, failed %lu\n", (unsigned long)wrong, failed);
    return wrong != 0 || failed != 0;
}

/* 32 threads, each with an arena of its own: one after the other fills it and frees all but the first blocks and the last one, which
   keeps the pages in between. The threads live until the end, so no arena is handed over. */
#include "rss_truth.h"
#include <pthread.h>

enum { THREADS = 32, BLOCKS = 4000, SIZE = 500, KEPT = 20 };

static pthread_barrier_t all, counted;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

static void *session(void *unused) {
    (void)unused;
    char *blocks[BLOCKS];
    // A first request gives each thread its arena.
    free(malloc(SIZE));
    pthread_barrier_wait(&all);
    pthread_mutex_lock(&turn);
    for (int n = 0; n < BLOCKS; n++) {
        blocks[n] = malloc(SIZE);
        memset(blocks[n], 3, SIZE);
        if (n < KEPT || n == BLOCKS - 1)
            truth_note(blocks[n], SIZE);
    }
    for (int n = KEPT; n < BLOCKS - 1; n++)
        free(blocks[n]);
    pthread_mutex_unlock(&turn);
    pthread_barrier_wait(&counted);
    pthread_barrier_wait(&counted);
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    if (getenv("MALLOC_ARENA_MAX") == NULL)
        mallopt(M_ARENA_MAX, THREADS + 1);
    truth_begin();
    pthread_barrier_init(&all, NULL, THREADS);
    pthread_barrier_init(&counted, NULL, THREADS + 1);
    for (int n = 0; n < THREADS; n++)
        if (pthread_create(&threads[n], NULL, session, NULL) != 0)
            return 1;
    pthread_barrier_wait(&counted);
    truth_print();
    exit(0);
}

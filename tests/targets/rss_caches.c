/* What threads keep of freed blocks: three threads, the first one among them, free seven blocks of each size that a cache has room for, and keep
   an eighth. The other two have one arena, and live until the end. Prints what the caches hold, beside the truth of rss_truth.h. */
#include "rss_truth.h"
#include <pthread.h>

enum { OTHERS = 2, SIZES = 64, CACHED = 7 };

static pthread_barrier_t all;
static size_t cached;

static void *fill(void *unused) {
    void *blocks[SIZES][CACHED];
    for (size_t size = 0; size < SIZES; size++) {
        for (size_t n = 0; n < CACHED; n++)
            blocks[size][n] = memset(malloc(24 + 16 * size), 1, 24 + 16 * size);
        truth_note(memset(malloc(24 + 16 * size), 1, 24 + 16 * size), 24 + 16 * size);
    }
    for (size_t size = 0; size < SIZES; size++)
        for (size_t n = 0; n < CACHED; n++) {
            __atomic_fetch_add(&cached, 8 + malloc_usable_size(blocks[size][n]), __ATOMIC_RELAXED);
            free(blocks[size][n]);
        }
    return unused;
}

static void *stay(void *unused) {
    fill(NULL);
    pthread_barrier_wait(&all);
    for (;;)
        pause();
    return unused;
}

int main(void) {
    pthread_t thread;
    mallopt(M_ARENA_MAX, 2);
    truth_begin();
    fill(NULL);
    pthread_barrier_init(&all, NULL, OTHERS + 1);
    for (int n = 0; n < OTHERS; n++)
        if (pthread_create(&thread, NULL, stay, NULL) != 0)
            return 1;
    pthread_barrier_wait(&all);
    char line[32];
    int length = snprintf(line, sizeof line, "%zu\n", cached);
    if (write(STDOUT_FILENO, line, (size_t)length) != length)
        return 1;
    truth_print();
    /* Other threads hold no lock that an ordinary exit needs. */
    exit(0);
}

/*
 * wrapped_counts: writes counts into two of its threads' blocks of the process file whose sum is 2^64 and a little: allocations,
 * bytes and frees of each are below what a number can hold, and together they begin anew.
 */
#include "base/wire.h"
#include "target.h"

#include <pthread.h>
#include <sys/mman.h>

static pthread_barrier_t meet;

static void *thread(void *unused) {
    (void)unused;
    free(malloc(10));
    pthread_barrier_wait(&meet);
    pthread_barrier_wait(&meet);
    return NULL;
}

static struct mallow_process *own_file(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps);
    char line[8192], rights[8];
    unsigned long start, end;
    struct mallow_process *found = NULL;
    while (found == NULL && fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%lx %7s", &start, &end, rights) == 3 && rights[1] == 'w' && rights[3] == 's' &&
            ((struct mallow_process *)start)->magic == MALLOW_PROCESS_MAGIC)
            found = (struct mallow_process *)start;
    }
    fclose(maps);
    return found;
}

int main(void) {
    pthread_t other;
    CHECK(pthread_barrier_init(&meet, NULL, 2) == 0 && pthread_create(&other, NULL, thread, NULL) == 0);
    pthread_barrier_wait(&meet);
    struct mallow_process *file = own_file();
    CHECK(file != NULL && file->threads >= 2);
    struct mallow_thread *threads = (struct mallow_thread *)((char *)file + file->threads_offset);
    for (int i = 0; i < 2; i++) {
        threads[i].frees = (1ull << 63) + 7;
        threads[i].counter[0].allocations = (1ull << 63) + 11;
    }
    pthread_barrier_wait(&meet);
    CHECK(pthread_join(other, NULL) == 0);
    return 0;
}

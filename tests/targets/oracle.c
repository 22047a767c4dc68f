/* build: -shared -fPIC -fvisibility=hidden */
/*
 * An independent count of the same functions, in the plainest way: a wrapper for each, atomic counters, a mapped file
 * ORACLE_DIR/PID.N for each process image. It shares no code with Mallow. Where the two differ, one of them is wrong.
 */
#define _GNU_SOURCE
#include "entry_points.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The harness reads this layout: 64-bit words in this order. */
struct counts {
    uint64_t calls[FUNCTIONS], bytes[FUNCTIONS];
    uint64_t frees, realloc_frees, in_place, moved;
};
static struct counts bootstrap, *counts = &bootstrap;

static void add(uint64_t *counter, uint64_t amount) {
    __atomic_fetch_add(counter, amount, __ATOMIC_RELAXED);
}

static void allocated(enum function by, void *block, size_t bytes) {
    (void)block;
    add(&counts->calls[by], 1);
    add(&counts->bytes[by], bytes);
}

static void freed(void *block) {
    (void)block;
    add(&counts->frees, 1);
}

static void map_counts(void) {
    const char *dir = getenv("ORACLE_DIR");
    if (!dir)
        return;
    char path[4096];
    for (int n = 0; n < 1000; n++) {
        snprintf(path, sizeof path, "%s/%d.%d", dir, (int)getpid(), n);
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (fd < 0 && errno == EEXIST)
            continue;
        if (fd < 0 || ftruncate(fd, sizeof *counts))
            abort();
        struct counts *map = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (map == MAP_FAILED)
            abort();
        close(fd);
        *map = bootstrap;
        counts = map;
        return;
    }
}

static void in_child(void) {
    memset(&bootstrap, 0, sizeof bootstrap);
    counts = &bootstrap;
    map_counts();
}

__attribute__((constructor(101))) static void start(void) {
    need();
    map_counts();
    pthread_atfork(NULL, NULL, in_child);
}

static void *reallocated(enum function by, void *old, size_t size) {
    uintptr_t before = (uintptr_t)old;
    void *block = real_realloc(old, size);
    if (block && (size || !before))
        allocated(by, block, size);
    if (before && (block || !size))
        add(&counts->realloc_frees, 1);
    if (before && block)
        add((uintptr_t)block == before ? &counts->in_place : &counts->moved, 1);
    return block;
}

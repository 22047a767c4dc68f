/*
 * The naive counter: a wrapper for each allocating function, one lock, a table of live blocks by address. Each process
 * image has a mapped file COUNTER_TO/PID.N with the layout below, so its numbers survive any end. It shares no code
 * with Mallow. It has no thread-local storage: another module with some would change the sizes of the C library's
 * tables.
 */
#define _GNU_SOURCE
#include "../targets/entry_points.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* counter.py reads these words in this order, then the path of the executable. */
struct counts {
    uint64_t allocations, allocated_bytes, frees;
    uint64_t foreign_frees; /* of blocks that this image did not allocate; frees includes them */
    uint64_t live, live_bytes, peak_bytes;
    uint64_t reallocs_in_place, reallocs_moved;
    uint64_t threads; /* beside the first one */
    char executable[256];
};
static struct counts bootstrap, *counts = &bootstrap;

struct block {
    uintptr_t address; /* 0: an empty slot */
    size_t size;
};
static struct block *table;
static size_t slots, used;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int (*real_pthread_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

/* ---- The table: open addressing, linear probing */

static size_t home(uintptr_t address) {
    return (size_t)((address >> 4) * 0x9e3779b97f4a7c15u >> 20) & (slots - 1);
}

static void put(uintptr_t address, size_t size) {
    size_t at = home(address);
    while (table[at].address)
        at = (at + 1) & (slots - 1);
    table[at] = (struct block){address, size};
    used++;
}

static void grow(void) {
    struct block *old = table;
    size_t before = slots;
    slots = before ? 2 * before : 1 << 16;
    table = mmap(NULL, slots * sizeof *table, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (table == MAP_FAILED)
        abort();
    used = 0;
    for (size_t i = 0; i < before; i++) {
        if (old[i].address)
            put(old[i].address, old[i].size);
    }
    if (old)
        munmap(old, before * sizeof *old);
}

/* False: the address is no block of this image. */
static int take(uintptr_t address, size_t *size) {
    if (!slots)
        return 0;
    size_t at = home(address);
    while (table[at].address != address) {
        if (!table[at].address)
            return 0;
        at = (at + 1) & (slots - 1);
    }
    *size = table[at].size;
    used--;
    /* Whatever follows without a gap is put again: it may have been displaced by the slot that is empty now. */
    table[at].address = 0;
    for (at = (at + 1) & (slots - 1); table[at].address; at = (at + 1) & (slots - 1)) {
        struct block moved = table[at];
        table[at].address = 0;
        used--;
        put(moved.address, moved.size);
    }
    return 1;
}

/* ---- Counting */

static void begins(void *block, size_t size) {
    if (2 * used >= slots)
        grow();
    put((uintptr_t)block, size);
    counts->live++;
    counts->live_bytes += size;
    if (counts->live_bytes > counts->peak_bytes)
        counts->peak_bytes = counts->live_bytes;
}

/* False: this image did not allocate it. */
static int ends(void *block, size_t *size) {
    if (!take((uintptr_t)block, size))
        return 0;
    counts->live--;
    counts->live_bytes -= *size;
    return 1;
}

static void allocated(enum function by, void *block, size_t size) {
    (void)by;
    int error = errno;
    pthread_mutex_lock(&lock);
    counts->allocations++;
    counts->allocated_bytes += size;
    begins(block, size);
    pthread_mutex_unlock(&lock);
    errno = error;
}

/* ---- Process images */

static void map_counts(void) {
    const char *directory = getenv("COUNTER_TO");
    if (!directory)
        return;
    char path[4096];
    for (int n = 0; n < 1000; n++) {
        snprintf(path, sizeof path, "%s/%d.%d", directory, (int)getpid(), n);
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno == EEXIST)
            continue;
        if (fd < 0 || ftruncate(fd, sizeof *counts))
            return; /* a process without rights to write there: no file, and so no oracle for it */
        struct counts *map = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
        if (map == MAP_FAILED)
            return;
        *map = *counts;
        if (readlink("/proc/self/exe", map->executable, sizeof map->executable - 1) < 0)
            map->executable[0] = 0;
        counts = map;
        return;
    }
}

static void before_fork(void) {
    pthread_mutex_lock(&lock);
}

static void in_parent(void) {
    pthread_mutex_unlock(&lock);
}

/* A child begins without live blocks; the parent's are the parent's. */
static void in_child(void) {
    memset(&bootstrap, 0, sizeof bootstrap);
    counts = &bootstrap;
    if (slots)
        memset(table, 0, slots * sizeof *table);
    used = 0;
    pthread_mutex_unlock(&lock);
    map_counts();
}

__attribute__((constructor(101))) static void start(void) {
    need();
    real_pthread_create = dlsym(RTLD_NEXT, "pthread_create");
    map_counts();
    pthread_atfork(before_fork, in_parent, in_child);
}

/* ---- The functions */

static void freed(void *block) {
    int error = errno;
    size_t size;
    pthread_mutex_lock(&lock);
    counts->frees++;
    if (!ends(block, &size))
        counts->foreign_frees++;
    pthread_mutex_unlock(&lock);
    errno = error;
}

static void *reallocated(enum function by, void *old, size_t size) {
    (void)by;
    if (!old)
        return malloc(size);
    uintptr_t before = (uintptr_t)old;
    size_t old_size = 0;
    pthread_mutex_lock(&lock);
    int known = ends(old, &old_size);
    pthread_mutex_unlock(&lock);
    void *block = real_realloc(old, size);
    int error = errno;
    pthread_mutex_lock(&lock);
    if (block || !size) {
        counts->frees++;
        counts->foreign_frees += !known;
    } else if (known) {
        begins((void *)before, old_size);
    }
    if (block) {
        counts->allocations++;
        counts->allocated_bytes += size;
        begins(block, size);
        if ((uintptr_t)block == before)
            counts->reallocs_in_place++;
        else
            counts->reallocs_moved++;
    }
    pthread_mutex_unlock(&lock);
    errno = error;
    return block;
}

EXPORT int pthread_create(pthread_t *id, const pthread_attr_t *attributes, void *(*work)(void *), void *argument) {
    if (!real_pthread_create) /* a constructor that runs earlier */
        real_pthread_create = dlsym(RTLD_NEXT, "pthread_create");
    pthread_mutex_lock(&lock);
    counts->threads++;
    pthread_mutex_unlock(&lock);
    return real_pthread_create(id, attributes, work, argument);
}

/* build: -shared -fPIC -fvisibility=hidden */
/*
 * An independent count of the same functions, in the plainest way: a wrapper for each, atomic counters, a mapped file
 * ORACLE_DIR/PID.N for each process image. It shares no code with Mallow. Where the two differ, one of them is wrong.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { MALLOC, CALLOC, REALLOC, REALLOCARRAY, ALIGNED_ALLOC, MEMALIGN, POSIX_MEMALIGN, VALLOC, PVALLOC, FAMILIES };

/* The harness reads this layout: 64-bit words in this order. */
struct counts {
    uint64_t calls[FAMILIES], bytes[FAMILIES];
    uint64_t frees, realloc_frees, in_place, moved;
};
static struct counts bootstrap, *counts = &bootstrap;

static void *(*real_malloc)(size_t);
static void *(*real_calloc)(size_t, size_t);
static void *(*real_realloc)(void *, size_t);
static void *(*real_aligned_alloc)(size_t, size_t);
static void *(*real_memalign)(size_t, size_t);
static int (*real_posix_memalign)(void **, size_t, size_t);
static void *(*real_valloc)(size_t);
static void *(*real_pvalloc)(size_t);
static void (*real_free)(void *);

static void add(uint64_t *counter, uint64_t amount) {
    __atomic_fetch_add(counter, amount, __ATOMIC_RELAXED);
}

static void allocation(int family, size_t bytes) {
    add(&counts->calls[family], 1);
    add(&counts->bytes[family], bytes);
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

/* The first call comes from the dynamic linker, in a process of one thread. glibc's dlsym allocates only to report
 * an error, and these nine are there. */
__attribute__((cold)) static void resolve(void) {
    real_malloc = dlsym(RTLD_NEXT, "malloc");
    real_calloc = dlsym(RTLD_NEXT, "calloc");
    real_realloc = dlsym(RTLD_NEXT, "realloc");
    real_aligned_alloc = dlsym(RTLD_NEXT, "aligned_alloc");
    real_memalign = dlsym(RTLD_NEXT, "memalign");
    real_posix_memalign = dlsym(RTLD_NEXT, "posix_memalign");
    real_valloc = dlsym(RTLD_NEXT, "valloc");
    real_pvalloc = dlsym(RTLD_NEXT, "pvalloc");
    real_free = dlsym(RTLD_NEXT, "free");
}

__attribute__((constructor(101))) static void start(void) {
    if (!real_free)
        resolve();
    map_counts();
    pthread_atfork(NULL, NULL, in_child);
}

EXPORT void *malloc(size_t size) {
    if (__builtin_expect(!real_malloc, 0))
        resolve();
    void *block = real_malloc(size);
    if (block)
        allocation(MALLOC, size);
    return block;
}

EXPORT void *calloc(size_t count, size_t size) {
    if (__builtin_expect(!real_calloc, 0))
        resolve();
    void *block = real_calloc(count, size);
    if (block)
        allocation(CALLOC, count * size);
    return block;
}

static void *reallocated(int family, void *old, size_t size) {
    if (__builtin_expect(!real_realloc, 0))
        resolve();
    uintptr_t before = (uintptr_t)old;
    void *block = real_realloc(old, size);
    if (block && (size || !before))
        allocation(family, size);
    if (before && (block || !size))
        add(&counts->realloc_frees, 1);
    if (before && block)
        add((uintptr_t)block == before ? &counts->in_place : &counts->moved, 1);
    return block;
}

EXPORT void *realloc(void *old, size_t size) {
    return reallocated(REALLOC, old, size);
}

EXPORT void *reallocarray(void *old, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return reallocated(REALLOCARRAY, old, bytes);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size) {
    if (__builtin_expect(!real_aligned_alloc, 0))
        resolve();
    void *block = real_aligned_alloc(alignment, size);
    if (block)
        allocation(ALIGNED_ALLOC, size);
    return block;
}

EXPORT void *memalign(size_t alignment, size_t size) {
    if (__builtin_expect(!real_memalign, 0))
        resolve();
    void *block = real_memalign(alignment, size);
    if (block)
        allocation(MEMALIGN, size);
    return block;
}

EXPORT int posix_memalign(void **place, size_t alignment, size_t size) {
    if (__builtin_expect(!real_posix_memalign, 0))
        resolve();
    int error = real_posix_memalign(place, alignment, size);
    if (!error)
        allocation(POSIX_MEMALIGN, size);
    return error;
}

EXPORT void *valloc(size_t size) {
    if (__builtin_expect(!real_valloc, 0))
        resolve();
    void *block = real_valloc(size);
    if (block)
        allocation(VALLOC, size);
    return block;
}

EXPORT void *pvalloc(size_t size) {
    if (__builtin_expect(!real_pvalloc, 0))
        resolve();
    void *block = real_pvalloc(size);
    if (block)
        allocation(PVALLOC, size);
    return block;
}

EXPORT void free(void *block) {
    if (__builtin_expect(!real_free, 0))
        resolve();
    if (block)
        add(&counts->frees, 1);
    real_free(block);
}

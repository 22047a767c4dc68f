/*
 * The C library's allocating functions, each wrapped, for preloaded counters. They share no code with Mallow.
 * Who includes this defines allocated, freed and reallocated.
 */
#ifndef ENTRY_POINTS_H
#define ENTRY_POINTS_H

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

enum function {
    MALLOC,
    CALLOC,
    REALLOC,
    REALLOCARRAY,
    ALIGNED_ALLOC,
    MEMALIGN,
    POSIX_MEMALIGN,
    VALLOC,
    PVALLOC,
    FUNCTIONS
};

/* A block that a function returned, with the size that was asked for. Keeps errno. */
static void allocated(enum function by, void *block, size_t size);
/* A block that free gets, while nobody else can have its address. Keeps errno. */
static void freed(void *block);
/* All that realloc does. */
static void *reallocated(enum function by, void *old, size_t size);

static void *(*real_malloc)(size_t);
static void *(*real_calloc)(size_t, size_t);
static void *(*real_realloc)(void *, size_t);
static void *(*real_aligned_alloc)(size_t, size_t);
static void *(*real_memalign)(size_t, size_t);
static int (*real_posix_memalign)(void **, size_t, size_t);
static void *(*real_valloc)(size_t);
static void *(*real_pvalloc)(size_t);
static void (*real_free)(void *);

/* The first call comes from the dynamic linker, in a process of one thread. glibc's dlsym allocates to report an error
 * alone, and these nine are there. */
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

static void need(void) {
    if (__builtin_expect(!real_free, 0))
        resolve();
}

static void *counted(enum function by, void *block, size_t size) {
    if (block)
        allocated(by, block, size);
    return block;
}

EXPORT void *malloc(size_t size) {
    need();
    return counted(MALLOC, real_malloc(size), size);
}

EXPORT void *calloc(size_t count, size_t size) {
    need();
    return counted(CALLOC, real_calloc(count, size), count * size);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size) {
    need();
    return counted(ALIGNED_ALLOC, real_aligned_alloc(alignment, size), size);
}

EXPORT void *memalign(size_t alignment, size_t size) {
    need();
    return counted(MEMALIGN, real_memalign(alignment, size), size);
}

EXPORT int posix_memalign(void **place, size_t alignment, size_t size) {
    need();
    int error = real_posix_memalign(place, alignment, size);
    if (!error)
        allocated(POSIX_MEMALIGN, *place, size);
    return error;
}

EXPORT void *valloc(size_t size) {
    need();
    return counted(VALLOC, real_valloc(size), size);
}

EXPORT void *pvalloc(size_t size) {
    need();
    return counted(PVALLOC, real_pvalloc(size), size);
}

EXPORT void *realloc(void *old, size_t size) {
    need();
    return reallocated(REALLOC, old, size);
}

EXPORT void *reallocarray(void *old, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    need();
    return reallocated(REALLOCARRAY, old, bytes);
}

EXPORT void free(void *block) {
    need();
    if (block)
        freed(block);
    real_free(block);
}

#endif

/*
 * What both small peers share: the next allocator's functions, found with dlsym at the first call, and a few bytes for
 * calls that dlsym itself makes meanwhile.
 */
#ifndef BENCH_PEERS_NEXT_H
#define BENCH_PEERS_NEXT_H

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT      __attribute__((visibility("default")))
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

static void *(*next_malloc)(size_t);
static void *(*next_calloc)(size_t, size_t);
static void *(*next_realloc)(void *, size_t);
static void (*next_free)(void *);

static char early[4096] __attribute__((aligned(16)));
static size_t early_used;
static int finding;

static inline int is_early(const void *block) {
    return (const char *)block >= early && (const char *)block < early + sizeof early;
}

static void *early_block(size_t size) {
    size_t at = early_used;
    if (size > sizeof early - at)
        abort();
    early_used = at + ((size + 15) & ~(size_t)15);
    return early + at;
}

__attribute__((cold, noinline)) static void find_next(void) {
    finding = 1;
    next_calloc = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "calloc");
    next_realloc = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
    next_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    next_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    finding = 0;
}

/* True: the call comes from inside find_next and must be served with early_block. */
static inline int not_ready(void) {
    if (UNLIKELY(!next_malloc)) {
        if (finding)
            return 1;
        find_next();
    }
    return 0;
}

#endif

/*
 * Counting with atomics that all threads share, the way SwiftNIO's allocation counter tests count. At the end of the
 * program the totals go to the file that ATOMIC_COUNT_FILE names, if it is set: `make bench` learns from it how many
 * events each workload has.
 */
#include "next.h"

#include <stdatomic.h>
#include <stdio.h>

static _Atomic uint64_t allocations;
static _Atomic uint64_t allocated_bytes;
static _Atomic uint64_t frees;

static inline void count_allocation(size_t size) {
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&allocated_bytes, size, memory_order_relaxed);
}

static inline void count_free(void) {
    atomic_fetch_add_explicit(&frees, 1, memory_order_relaxed);
}

EXPORT void *malloc(size_t size) {
    if (not_ready())
        return early_block(size);
    count_allocation(size);
    return next_malloc(size);
}

EXPORT void *calloc(size_t count, size_t size) {
    if (not_ready())
        return early_block(count * size);
    count_allocation(count * size);
    return next_calloc(count, size);
}

EXPORT void *realloc(void *block, size_t size) {
    if (not_ready())
        return early_block(size);
    if (block)
        count_free();
    count_allocation(size);
    return next_realloc(block, size);
}

EXPORT void free(void *block) {
    if (!block || not_ready() || is_early(block))
        return;
    count_free();
    next_free(block);
}

__attribute__((destructor)) static void write_totals(void) {
    const char *path = getenv("ATOMIC_COUNT_FILE");
    if (!path)
        return;
    unsigned long long a = allocations, b = allocated_bytes, f = frees;
    FILE *file = fopen(path, "w");
    if (!file)
        return;
    fprintf(file, "allocations %llu\nallocated_bytes %llu\nfrees %llu\n", a, b, f);
    fclose(file);
}

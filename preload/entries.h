/*
 * The one list of interposed functions.
 *
 * X(name, result type, parameters, arguments)
 */
#ifndef MALLOW_ENTRIES_H
#define MALLOW_ENTRIES_H

#include "sys.h"

#define MALLOW_ENTRIES(X)                                                                                              \
    X(malloc, void *, (size_t size), (size))                                                                           \
    X(free, void, (void *block), (block))                                                                              \
    X(calloc, void *, (size_t count, size_t size), (count, size))                                                      \
    X(realloc, void *, (void *block, size_t size), (block, size))                                                      \
    X(reallocarray, void *, (void *block, size_t count, size_t size), (block, count, size))                            \
    X(aligned_alloc, void *, (size_t alignment, size_t size), (alignment, size))                                       \
    X(memalign, void *, (size_t alignment, size_t size), (alignment, size))                                            \
    X(posix_memalign, int, (void **result, size_t alignment, size_t size), (result, alignment, size))                  \
    X(valloc, void *, (size_t size), (size))                                                                           \
    X(pvalloc, void *, (size_t size), (size))

/* A set of functions with the signatures above: one for each policy, and one for the allocator beneath. */
struct hooks {
#define X(name, result, parameters, arguments) result(*name) parameters;
    MALLOW_ENTRIES(X)
#undef X
};

/* What the exported functions jump to. It starts with functions that initialise, so that the hot path tests nothing. */
extern struct hooks hook HIDDEN;

/* The allocator beneath: the next one in the search order of the dynamic linker. Set by real_resolve(). */
extern struct hooks real HIDDEN;

extern const struct hooks count_hooks HIDDEN;
extern const struct hooks trace_hooks HIDDEN;

/* Makes every entry point jump to `set`. Each pointer is replaced by itself: all sets can serve at any moment. */
void hooks_install(const struct hooks *set);

#endif

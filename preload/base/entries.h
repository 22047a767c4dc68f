/*
 * The one list of interposed functions.
 *
 * X(name, result type, parameters, arguments)
 */
#ifndef MALLOW_ENTRIES_H
#define MALLOW_ENTRIES_H

#include "base/sys.h"

/* The three that programs call all the time; entries.c counts their calls in place. */
#define MALLOW_HOT(X)                                                                                                  \
    X(malloc, void *, (size_t size), (size))                                                                           \
    X(free, void, (void *block), (block))                                                                              \
    X(calloc, void *, (size_t count, size_t size), (count, size))

/* The others: entries.c jumps to the policy. */
#define MALLOW_OTHER(X)                                                                                                \
    X(realloc, void *, (void *block, size_t size), (block, size))                                                      \
    X(reallocarray, void *, (void *block, size_t count, size_t size), (block, count, size))                            \
    X(aligned_alloc, void *, (size_t alignment, size_t size), (alignment, size))                                       \
    X(memalign, void *, (size_t alignment, size_t size), (alignment, size))                                            \
    X(posix_memalign, int, (void **result, size_t alignment, size_t size), (result, alignment, size))                  \
    X(valloc, void *, (size_t size), (size))                                                                           \
    X(pvalloc, void *, (size_t size), (size))

/* Asks, and changes nothing. */
#define MALLOW_ASIDE(X) X(malloc_usable_size, size_t, (void *block), (block))

#define MALLOW_ENTRIES(X) MALLOW_HOT(X) MALLOW_OTHER(X) MALLOW_ASIDE(X)

#define MALLOW_MEMBER(name, result, parameters, arguments) result(*name) parameters;

/* An allocator: all entry points. */
struct allocator {
    MALLOW_ENTRIES(MALLOW_MEMBER)
};

/*
 * The allocator beneath: the next one in the search order of the dynamic linker. It starts with functions that
 * initialise and call again, so that the hot path has no test for it.
 */
extern struct allocator real HIDDEN;

/*
 * What a recording does. Each function runs in the frame of an exported one, by a jump: its return address is the
 * caller's, and its frame address where the stack begins.
 */
struct policy {
    /* After malloc and calloc returned a block of `size` bytes; returns the block. */
    void *(*malloc_done)(void *block, size_t size);
    void *(*calloc_done)(void *block, size_t size);
    /* Instead of free on non-NULL; NULL: nothing is. */
    void (*free)(void *block);
    MALLOW_OTHER(MALLOW_MEMBER)
};

extern struct policy policy HIDDEN;

extern const struct policy count_policy HIDDEN;         /* counters alone */
extern const struct policy trace_policy HIDDEN;         /* events with stacks; the allocator beneath is glibc's */
extern const struct policy trace_policy_by_call HIDDEN; /* the same, over another allocator */
extern const struct policy sample_policy HIDDEN;        /* some, picked at random */
extern const struct policy lost_policy HIDDEN;          /* counts events that can no longer be traced */
extern const struct policy no_policy HIDDEN;            /* nothing: the allocator beneath alone */

/* Puts a policy in place. Each pointer is replaced by itself: all policies can serve at any moment. */
void policy_install(const struct policy *from);

#endif

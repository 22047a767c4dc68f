/*
 * Counting: each thread adds to counters of its own, in memory that mallow reads when the process has ended. No atomic
 * instruction, no shared cache line. entries.c does it for malloc, calloc and free once a thread has its counters.
 */
#include "count/count.h"
#include "base/target.h"

#include <errno.h>

static inline void add(struct mallow_thread *mine, enum mallow_family family, size_t size) {
    mine->counter[family].allocations++;
    mine->counter[family].bytes += size;
}

/* The thread's block, from its first event on; NULL when none can be had, and then the event counts as unrecorded. */
static inline struct mallow_thread *block_now(void) {
    struct mallow_thread *mine = counting_block();
    if (UNLIKELY(mine == NULL) && (mine = thread_enter()) != NULL)
        own_counters = mine;
    return mine;
}

static inline void *allocated(void *block, size_t size, enum mallow_family family) {
    struct mallow_thread *mine = block_now();
    if (mine != NULL)
        add(mine, family, size);
    return block;
}

COLD static void *count_malloc_done(void *block, size_t size) {
    return allocated(block, size, MALLOW_FAMILY_MALLOC);
}

COLD static void *count_calloc_done(void *block, size_t count, size_t size) {
    return allocated(block, count * size, MALLOW_FAMILY_CALLOC);
}

COLD static void count_free(void *block) {
    struct mallow_thread *mine = block_now();
    if (mine != NULL)
        mine->frees++;
    real.free(block);
}

static inline void *count_realloc_as(enum mallow_family family, void *old, size_t size) {
    void *block = real.realloc(old, size);
    if (block == NULL && size != 0)
        return NULL; /* failed: the old block lives on */
    struct mallow_thread *mine = block_now();
    if (mine == NULL)
        return block;
    if (block != NULL)
        add(mine, family, size);
    if (old != NULL) {
        mine->realloc_frees++;
        if (block != NULL)
            *(block == old ? &mine->realloc_in_place : &mine->realloc_moved) += 1;
    }
    return block;
}

static void *count_realloc(void *old, size_t size) {
    return count_realloc_as(MALLOW_FAMILY_REALLOC, old, size);
}

/* glibc's own reallocarray calls realloc through its PLT, and so us again: the product is computed here instead. */
static void *count_reallocarray(void *old, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return count_realloc_as(MALLOW_FAMILY_REALLOCARRAY, old, bytes);
}

static int count_posix_memalign(void **result, size_t alignment, size_t size) {
    int error = real.posix_memalign(result, alignment, size);
    if (error == 0 && *result != NULL)
        allocated(*result, size, MALLOW_FAMILY_POSIX_MEMALIGN);
    return error;
}

#define X(name, result, parameters, arguments)                                                                         \
    static result count_##name parameters {                                                                            \
        void *block = real.name arguments;                                                                             \
        return block != NULL ? allocated(block, size, MALLOW_FAMILY_OF_##name) : NULL;                                 \
    }
MALLOW_ALIGNED(X)
#undef X

const struct policy count_policy = {
    .malloc_done = count_malloc_done,
    .calloc_done = count_calloc_done,
    .free = count_free,
#define X(name, result, parameters, arguments) .name = count_##name,
    MALLOW_OTHER(X)
#undef X
        .over = policy_remove,
};

/*
 * Counting: each thread adds to counters of its own, in memory that mallow reads when the process has ended. No atomic
 * instruction, no shared cache line. entries.c does it for malloc, calloc and free once a thread has its counters.
 */
#include "count/count.h"
#include "base/target.h"

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
        count_allocation(mine, family, size);
    return block;
}

COLD static void *count_malloc_done(void *block, size_t size) {
    return allocated(block, size, MALLOW_FAMILY_MALLOC);
}

COLD static void *count_calloc_done(void *block, size_t count, size_t size) {
    return allocated(block, count * size, MALLOW_FAMILY_CALLOC);
}

static inline void freed(void) {
    struct mallow_thread *mine = block_now();
    if (mine != NULL)
        mine->frees++;
}

COLD static void count_free(void *block) {
    freed();
    real.free(block);
}

static inline void *reallocated(void *old, void *block, size_t size, enum mallow_family family) {
    if (block == NULL && size != 0)
        return NULL; /* failed: the old block lives on */
    struct mallow_thread *mine = block_now();
    if (mine == NULL)
        return block;
    if (block != NULL)
        count_allocation(mine, family, size);
    if (old != NULL) {
        mine->realloc_frees++;
        if (block != NULL)
            *(block == old ? &mine->realloc_in_place : &mine->realloc_moved) += 1;
    }
    return block;
}

static inline void *count_realloc_as(enum mallow_family family, void *old, size_t size) {
    return reallocated(old, real.realloc(old, size), size, family);
}

static void *count_realloc(void *old, size_t size) {
    return count_realloc_as(MALLOW_FAMILY_REALLOC, old, size);
}

static void *count_reallocarray(void *old, size_t count, size_t size) {
    return count_realloc_as(MALLOW_FAMILY_REALLOCARRAY, old, count * size);
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

static void count_hooked_allocated(const struct hooked_call *call) {
    allocated(call->block, call->size, call->family);
}

static void count_hooked_freed(const struct hooked_call *call) {
    (void)call;
    freed();
}

static void count_hooked_reallocated(const struct hooked_call *call) {
    reallocated(call->old, call->block, call->size, call->family);
}

static const struct hooked_policy count_hooked = {
    .allocated = count_hooked_allocated, .freed = count_hooked_freed, .reallocated = count_hooked_reallocated};

const struct policy count_policy = {
    .malloc_done = count_malloc_done,
    .calloc_done = count_calloc_done,
    .free = count_free,
    .hooked = &count_hooked,
#define X(name, result, parameters, arguments) .name = count_##name,
    MALLOW_OTHER(X)
#undef X
        .over = policy_remove,
};

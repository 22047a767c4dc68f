/*
 * Counting: each thread adds to counters of its own, in memory that mallow reads when the process has ended. No atomic
 * instruction, no shared cache line: about 1 ns a call.
 */
#include "entries.h"
#include "target.h"

#include <errno.h>

/* A thread's block, made at need; NULL when it cannot be had, and then the event was counted as unrecorded. */
#define WITH_BLOCK(block)                                                                                              \
    struct mallow_thread *block = thread_block();                                                                      \
    if (LIKELY(block != NULL) || (block = thread_enter()) != NULL)

static inline void allocated(enum mallow_family family, size_t size) {
    WITH_BLOCK(mine) {
        mine->counter[family].allocations++;
        mine->counter[family].bytes += size;
    }
}

static void *count_malloc(size_t size) {
    void *block = real.malloc(size);
    if (LIKELY(block != NULL))
        allocated(MALLOW_FAMILY_MALLOC, size);
    return block;
}

static void count_free(void *block) {
    if (block != NULL) {
        WITH_BLOCK(mine)
        mine->frees++;
    }
    real.free(block);
}

static void *count_calloc(size_t count, size_t size) {
    void *block = real.calloc(count, size);
    if (LIKELY(block != NULL))
        allocated(MALLOW_FAMILY_CALLOC, count * size); /* it succeeded: no overflow */
    return block;
}

static inline void *count_realloc_as(enum mallow_family family, void *old, size_t size) {
    void *block = real.realloc(old, size);
    if (block != NULL)
        allocated(family, size);
    else if (size != 0)
        return NULL; /* failed: the old block lives on */
    if (old != NULL) {
        WITH_BLOCK(mine) {
            mine->realloc_frees++;
            if (block != NULL)
                *(block == old ? &mine->realloc_in_place : &mine->realloc_moved) += 1;
        }
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

static void *count_aligned_alloc(size_t alignment, size_t size) {
    void *block = real.aligned_alloc(alignment, size);
    if (block != NULL)
        allocated(MALLOW_FAMILY_ALIGNED_ALLOC, size);
    return block;
}

static void *count_memalign(size_t alignment, size_t size) {
    void *block = real.memalign(alignment, size);
    if (block != NULL)
        allocated(MALLOW_FAMILY_MEMALIGN, size);
    return block;
}

static int count_posix_memalign(void **result, size_t alignment, size_t size) {
    int error = real.posix_memalign(result, alignment, size);
    if (error == 0 && *result != NULL)
        allocated(MALLOW_FAMILY_POSIX_MEMALIGN, size);
    return error;
}

static void *count_valloc(size_t size) {
    void *block = real.valloc(size);
    if (block != NULL)
        allocated(MALLOW_FAMILY_VALLOC, size);
    return block;
}

static void *count_pvalloc(size_t size) {
    void *block = real.pvalloc(size);
    if (block != NULL)
        allocated(MALLOW_FAMILY_PVALLOC, size);
    return block;
}

const struct hooks count_hooks = {
    .malloc = count_malloc,
    .free = count_free,
    .calloc = count_calloc,
    .realloc = count_realloc,
    .reallocarray = count_reallocarray,
    .aligned_alloc = count_aligned_alloc,
    .memalign = count_memalign,
    .posix_memalign = count_posix_memalign,
    .valloc = count_valloc,
    .pvalloc = count_pvalloc,
};

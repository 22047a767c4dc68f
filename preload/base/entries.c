/*
 * The exported functions, a few instructions each. A taken jump costs more than what is between two of them, so malloc
 * and free count in place; everything else is one jump away.
 *
 * Where a thread has an allowance, what it covers goes on to the allocator beneath by a jump: about 6 instructions with two
 * tests. free knows by the address which blocks are the policy's own.
 */
#include "base/entries.h"
#include "base/target.h"

#define EXPORT __attribute__((visibility("default")))

_Thread_local uint64_t allowance __attribute__((tls_model("initial-exec")));
struct owned_range owned_range;

EXPORT void *malloc(size_t size) {
    uint64_t left = allowance;
    if (UNLIKELY(left != 0)) {
        if (UNLIKELY(size >= left))
            return policy.malloc_due(size);
        allowance = left - size;
        return real.malloc(size);
    }
    void *block = real.malloc(size);
    if (UNLIKELY(block == NULL))
        return NULL;
    struct mallow_thread *mine = counting_block();
    if (UNLIKELY(mine == NULL))
        return policy.malloc_done(block, size);
    mine->counter[MALLOW_FAMILY_MALLOC].allocations++;
    mine->counter[MALLOW_FAMILY_MALLOC].bytes += size;
    return block;
}

EXPORT void free(void *block) {
    if (UNLIKELY(is_owned(block))) {
        policy.free_owned(block);
        return;
    }
    if (block == NULL)
        return;
    struct mallow_thread *mine = counting_block();
    if (UNLIKELY(mine == NULL)) {
        policy.free(block);
        return;
    }
    mine->frees++;
    real.free(block);
}

EXPORT void *calloc(size_t count, size_t size) {
    if (allowance != 0)
        return policy.calloc_due(count, size);
    void *block = real.calloc(count, size);
    if (UNLIKELY(block == NULL))
        return NULL;
    struct mallow_thread *mine = counting_block();
    if (UNLIKELY(mine == NULL))
        return policy.calloc_done(block, count, size); /* it succeeded: count * size does not overflow */
    mine->counter[MALLOW_FAMILY_CALLOC].allocations++;
    mine->counter[MALLOW_FAMILY_CALLOC].bytes += count * size;
    return block;
}

#define X(name, result, parameters, arguments)                                                                         \
    EXPORT result name parameters {                                                                                    \
        return policy.name arguments;                                                                                  \
    }
MALLOW_OTHER(X)
#undef X

EXPORT size_t malloc_usable_size(void *block) {
    return UNLIKELY(is_owned(block)) ? policy.usable_size_owned(block) : real.malloc_usable_size(block);
}

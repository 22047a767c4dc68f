/*
 * The exported functions, a few instructions each. A taken jump costs more than what is between two of them, so malloc
 * and free count in place; everything else is one jump away.
 *
 * Where allocations are sampled, a thread's countdown is not 0, and what is not picked goes on to the allocator beneath by
 * a jump: about 6 instructions with two tests. free knows by the address what was picked.
 */
#include "base/entries.h"
#include "base/target.h"
#include "sample/sample.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT void *malloc(size_t size) {
    uint64_t left = countdown.left;
    if (UNLIKELY(left != 0)) {
        if (UNLIKELY(size >= left))
            return sample_malloc(size);
        countdown.left = left - size;
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
    if (UNLIKELY(slot_holds(block))) {
        sample_free(block);
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
    if (countdown.left != 0)
        return sample_calloc(count, size);
    void *block = real.calloc(count, size);
    if (UNLIKELY(block == NULL))
        return NULL;
    struct mallow_thread *mine = counting_block();
    if (UNLIKELY(mine == NULL))
        return policy.calloc_done(block, count * size); /* it succeeded: no overflow */
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
    return UNLIKELY(slot_holds(block)) ? sample_usable_size(block) : real.malloc_usable_size(block);
}

void policy_install(const struct policy *from) {
#define X(name, result, parameters, arguments) __atomic_store_n(&policy.name, from->name, __ATOMIC_RELEASE);
    X(malloc_done, , , )
    X(calloc_done, , , )
    MALLOW_OTHER(X)
    __atomic_store_n(&policy.free, from->free != NULL ? from->free : real.free, __ATOMIC_RELEASE);
#undef X
}

/*
 * The exported functions, a few instructions each. A taken jump costs more than what is between two of them, so malloc
 * and free count in place; everything else is one jump away.
 *
 * A call that a thread's allowance covers goes on to the underlying allocator by a jump: about 6 instructions with two
 * tests. free knows by the address which blocks are the policy's own.
 */
#include "base/entries.h"
#include "base/target.h"

#include <errno.h>

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
    count_allocation(mine, MALLOW_FAMILY_MALLOC, size);
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
    count_allocation(mine, MALLOW_FAMILY_CALLOC, count * size);
    return block;
}

/* glibc's own calls realloc through its PLT, and so us again: policies are given a product that does not overflow. */
EXPORT void *reallocarray(void *block, size_t count, size_t size) {
    size_t bytes;
    if (UNLIKELY(__builtin_mul_overflow(count, size, &bytes))) {
        errno = ENOMEM;
        return NULL;
    }
    return policy.reallocarray(block, count, size);
}

#define X(name, result, parameters, arguments)                                                                         \
    EXPORT result name parameters {                                                                                    \
        return policy.name arguments;                                                                                  \
    }
MALLOW_PASSED(X)
#undef X

EXPORT size_t malloc_usable_size(void *block) {
    return UNLIKELY(is_owned(block)) ? policy.usable_size_owned(block) : real.malloc_usable_size(block);
}

/* A call by the exported name would go to the first library that has it. */
#define X(name, result, parameters, arguments)                                                                         \
    __asm__(".globl entry_" #name "\n.hidden entry_" #name "\n.set entry_" #name ", " #name);
MALLOW_HOT(X)
MALLOW_OTHER(X)
#undef X

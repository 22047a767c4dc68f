/*
 * operator new and operator delete of an allocator that is a library. Its malloc comes after ours in the search order;
 * its operators have no definition of ours before them, and reach it past us. Patched, they lead to malloc and free, as
 * those of libstdc++ do: each policy serves them without knowing them. Where there is no memory left the allocator's
 * own operator decides, which calls the new-handler or throws.
 *
 * Calls of the library itself stay there.
 */
#include "base/entries.h"
#include "base/target.h"
#include "hook/stubs.h"

#define RETURN_ADDRESS ((uint64_t)__builtin_return_address(0))

/* As malloc in entries.c, but for the end of memory, and with one byte for none, as libstdc++ does. No block is the
 * policy's own here: sampling in slots patches nothing. Sampling in place takes an allowance off in malloc_done. */
word operator_new(PARAMETERS) {
    if (UNLIKELY(is_called_within(RETURN_ADDRESS, hook)))
        return CALL;
    a += a == 0;
    void *block = real.malloc(a);
    if (UNLIKELY(block == NULL))
        return CALL;
    struct mallow_thread *mine = counting_block();
    if (UNLIKELY(mine == NULL))
        return (word)policy.malloc_done(block, a);
    count_allocation(mine, MALLOW_FAMILY_MALLOC, a);
    return (word)block;
}

/* libstdc++ asks aligned_alloc for a multiple of the alignment, and for that of a pointer at least. Whether there is
 * memory has to be known before the jump, so that stacks begin at the caller. */
word operator_new_aligned(PARAMETERS) {
    size_t alignment = b < sizeof(void *) ? sizeof(void *) : b, bytes = (a + alignment - 1) & ~(alignment - 1);
    void *block;
    if (is_called_within(RETURN_ADDRESS, hook) || bytes < a || (block = real.aligned_alloc(alignment, bytes)) == NULL)
        return CALL;
    real.free(block);
    return (word)policy.aligned_alloc(alignment, bytes);
}

/* As free in entries.c. It ends with jumps, so that stacks begin at the caller. */
void operator_delete(PARAMETERS) {
    void *block = (void *)a;
    struct mallow_thread *mine = counting_block();
    if (UNLIKELY(is_called_within(RETURN_ADDRESS, hook))) {
        (void)CALL;
    } else if (block != NULL && UNLIKELY(mine == NULL)) {
        policy.free(block);
    } else if (block != NULL) {
        mine->frees++;
        real.free(block);
    }
}

/* Stubs of patched functions. */
#ifndef MALLOW_STUBS_H
#define MALLOW_STUBS_H

#include "base/sys.h"
#include "hook/ask.h"

typedef uint64_t word;
typedef word function(word, word, word, word, word);

#define PARAMETERS word a, word b, word c, word d, word e, const struct mallow_hook *hook
#define CALL       ((function *)(uintptr_t)hook->original)(a, b, c, d, e)
#define FRAME      ((const struct arch_frame *)__builtin_frame_address(0))

/*
 * Whether the caller is the module with the allocator, or this library, which calls the underlying allocator.
 */
static inline int is_called_within(uint64_t return_address, const struct mallow_hook *hook) {
    extern const char __ehdr_start[] HIDDEN, etext[] HIDDEN;
    return return_address - hook->module_start < hook->module_end - hook->module_start ||
           return_address - (uint64_t)__ehdr_start < (uint64_t)(etext - __ehdr_start);
}

/* Their addresses, by enum mallow_stub. */
void stubs_list(uint64_t out[MALLOW_STUB_COUNT]);

/*
 * Writes all of these jumps, or none. `is_start`: only where the image has one thread. 0, an errno, or one of
 * MALLOW_ASK_*.
 */
uint32_t patches_write(const struct mallow_patches *patches, int is_start);

/* operators.c */
word operator_new(PARAMETERS);
word operator_new_aligned(PARAMETERS);
void operator_delete(PARAMETERS);

#endif

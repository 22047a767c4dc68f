/* Whether a block is freed by the operation that belongs to its allocation. */
#ifndef MALLOW_MISMATCH_H
#define MALLOW_MISMATCH_H

#include "guard/guard_slots.h"

/* How a block is freed. */
struct freeing {
    uint8_t kind;      /* enum mallow_freeing */
    uint8_t alignment; /* that operator delete was called with: log2 + 1; 0: none */
    uint8_t has_size;
    size_t size; /* that it was called with */
};

/* enum mallow_operators of this image. Blocks from before it is MALLOW_OPERATORS_SEEN are compared with nothing. */
extern uint32_t mismatch_operators HIDDEN;

/* What a call of malloc or its like from this return address is. With sample_lock held. */
enum mallow_operation mismatch_operation(uint64_t return_address);
/* Whether the block of a slot is not to be freed so, from this return address. Where that is not certain, it is
 * counted. With sample_lock held. */
int mismatch_is(const struct slot *slot, struct freeing how, uint64_t return_address);
/* What a report has of that. */
void mismatch_describe(const struct slot *slot, struct freeing how, uint8_t bytes[16]);

#endif

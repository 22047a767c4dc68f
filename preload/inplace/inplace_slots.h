/*
 * Slots of samples in place: a record of each, without memory for a block. Call with sample_lock held, unless stated
 * otherwise.
 */
#ifndef MALLOW_INPLACE_SLOTS_H
#define MALLOW_INPLACE_SLOTS_H

#include "inplace/slot_table.h"
#include "sample/slot_pool.h"

/* Makes slots and their table, for `most` samples at the most. 0: there is no memory. Once in an image and its
 * children, until the process leaves its run. */
int inplace_slots_make(uint32_t most);

/* A slot for a block that the allocator has just returned. NULL: there is none, or no room in the log or the table. */
struct slot *inplace_slot_take(const void *block);

/* Takes a block's slot out of the table: its owner is about to free it. NULL: it is no sample. Lock or not. */
static inline struct slot *inplace_slot_remove(const void *block) {
    uint32_t number = slot_table_remove(block);
    return LIKELY(number == 0) ? NULL : &slots[number - 1];
}

/* The allocator refused after all: the block's slot is in the table again. 0: there is no room any more. */
int inplace_slot_restore(struct slot *slot);

/* The sample of a slot that was removed ends. */
void inplace_slot_end(struct slot *slot, uint64_t now_ns, uint32_t tid, uint32_t stack, uint32_t kind,
                      const void *moved_to);

/* The same without the lock, and in signal handlers: who has the lock next ends it, without a stack. */
COLD void inplace_slot_defer(struct slot *slot, uint32_t kind);
extern uint32_t inplace_slots_deferred HIDDEN;
COLD void inplace_slots_end_deferred(void);
static inline void inplace_slots_settle(void) {
    if (UNLIKELY(__atomic_load_n(&inplace_slots_deferred, __ATOMIC_RELAXED) != 0))
        inplace_slots_end_deferred();
}

/* The process leaves its run. Lock or not: no thread is in the library. */
void inplace_slots_left(void);

#endif

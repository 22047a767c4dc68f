/*
 * The table of samples in place: which live sample a block of the allocator's own is. Used in a process that mallow
 * attached to.
 *
 * Open addressing over words that hold a block's address and its sample's number. Adding and tidying need sample_lock;
 * finding and removing need no lock. Only who owns a block looks for it, so its entry stays where it is while it is
 * looked for.
 *
 * A filter comes first: so many samples have their home in each part of the table. Nearly every free of a block that is
 * no sample reads one byte of it and goes on.
 */
#ifndef MALLOW_SLOT_TABLE_H
#define MALLOW_SLOT_TABLE_H

#include "base/sys.h"

#define SLOT_TABLE_FILTER_BITS 15u
/* Samples at the most: their numbers have so many bits. */
#define SLOT_TABLE_BITS 18u
/* An entry lies less than this far from its home, so a search ends, whatever is in the table. It also bounds what a
 * byte of the filter counts. */
#define SLOT_TABLE_FAR 64u

extern uint8_t slot_table_filter[1u << SLOT_TABLE_FILTER_BITS] HIDDEN;

static inline uint64_t slot_table_hash(const void *block) {
    return (uint64_t)block * 0x9e3779b97f4a7c15ull;
}

static inline uint8_t *slot_table_part(const void *block) {
    return &slot_table_filter[slot_table_hash(block) >> (64 - SLOT_TABLE_FILTER_BITS)];
}

/* Removes a block's entry. Its sample's number + 1; 0: it is none. Lock or not. */
COLD uint32_t slot_table_find_and_remove(const void *block);
static inline uint32_t slot_table_remove(const void *block) {
    return LIKELY(__atomic_load_n(slot_table_part(block), __ATOMIC_RELAXED) == 0) ? 0
                                                                                  : slot_table_find_and_remove(block);
}

/* ---- the rest: with sample_lock held ---- */

/* Makes a table for so many samples. 0: there is no memory. */
int slot_table_make(uint32_t most);
/* Adds a block that has no entry. 0: there is no room near its home. */
int slot_table_add(const void *block, uint32_t number);
/* The entry of this block was removed: gives its place back where no search needs it. */
void slot_table_tidy(const void *block);
/* Empties the table, and gives its memory back. */
void slot_table_unmake(void);

#endif

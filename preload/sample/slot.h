/*
 * One slot: taking it for a block, finding it by the block, and giving it back. Inlined where samples begin and end:
 * calls between small functions were a tenth of a sample's instructions.
 *
 * Call with sample_lock held, unless stated otherwise.
 */
#ifndef MALLOW_SLOT_H
#define MALLOW_SLOT_H

#include "arch.h"
#include "sample/slot_pool.h"

#include <string.h>

/* glibc's chunks: the header is two words before the block, and IS_MMAPPED is a bit of the second one. */
#define SLOT_HEADER 16u
#define IS_MMAPPED  2u

/*
 * A block of so many bytes is asked for as glibc asks: the system may refuse it, and would not refuse to open a slot.
 */
#define SLOT_LARGE (64ull << 20)

static inline uint64_t slot_in_pages(uint64_t bytes) {
    return (bytes + ARCH_PAGE - 1) & ~(ARCH_PAGE - 1);
}

/* The slot that a block lies in, live or not; NULL for an address that no slot has had. Lock or not: of a block that
 * the caller owns. */
static inline struct slot *slot_of(const void *block) {
    uint64_t offset = (uint64_t)block - owned_range.start;
    uint32_t which = (uint32_t)(offset >> slot_region_bits);
    uint64_t place = (offset & ((1ull << slot_region_bits) - 1)) >> (which + SLOT_SMALLEST);
    const struct slot_region *region = &slot_regions[which];
    return LIKELY(place < region->places) ? &slots[region->index[place]] : NULL;
}

/* ---- sizes ---- */

static inline uint64_t slot_offset(size_t alignment) {
    return alignment > SLOT_HEADER ? alignment : SLOT_HEADER;
}

/* What glibc's malloc_usable_size returns for a block of this size that is part of a heap: programs reckon with it. */
static inline uint64_t slot_usable(size_t size) {
    uint64_t chunk = (size + 8 + 15) & ~15ull;
    return (chunk > 32 ? chunk : 32) - 8;
}

/* The smallest slots for such a block, of 2^it bytes; 0: there are none. */
static inline uint32_t slot_bits(size_t size, size_t alignment) {
    if (UNLIKELY(size >= 1ull << SLOT_REGION_MOST || alignment >= 1ull << SLOT_REGION_MOST))
        return 0;
    uint64_t last = slot_offset(alignment) + size - 1;
    uint32_t bits = 64 - (uint32_t)__builtin_clzll(last | ((1ull << SLOT_SMALLEST) - 1));
    return LIKELY(bits <= slot_region_bits) ? bits : 0;
}

/* Precondition: offset + size bytes fit. */
static inline void slot_set_size(struct slot *slot, uint64_t offset, size_t size) {
    uint64_t usable = slot_usable(size), room = (1ull << slot->size) - offset;
    usable = usable < room ? usable : room;
    uint64_t used = offset + usable, chunk = offset - SLOT_HEADER;
    uint64_t header[2] = {chunk, (slot_in_pages(used) - chunk) | IS_MMAPPED};
    memcpy((char *)slot->start + chunk, header, sizeof header);
    slot->usable = usable;
    slot->used = used > slot->used ? used : slot->used;
}

/* Puts a block into the slot; returns it. What of it may hold something else than zeros are its first *stale bytes. */
static inline void *slot_fill(struct slot *slot, size_t size, size_t alignment, size_t *stale) {
    uint64_t offset = slot_offset(alignment), used = slot->used;
    *stale = used > offset ? used - offset : 0;
    slot_set_size(slot, offset, size);
    return (void *)(slot->start + offset);
}

/* Whether a block of this size fits where another one is. */
static inline int slot_fits(const struct slot *slot, size_t size) {
    uint64_t offset = slot->seen.address - slot->start;
    return size <= (1ull << slot->size) - offset;
}

/* Changes it to this size. Keeps only the contents that fit both sizes. */
static inline void slot_resize(struct slot *slot, size_t size) {
    uint64_t offset = slot->seen.address - slot->start, before = slot_in_pages(slot->used);
    slot_set_size(slot, offset, size);
    uint64_t after = slot_in_pages(offset + slot->usable);
    if (after < before && slot_memory_discard(slot->start + after, before - after) == 0)
        slot->used = after;
}

/* ---- taking and putting ---- */

static inline struct slot *slot_pop(uint32_t *list) {
    struct slot *slot = &slots[*list - 1];
    *list = slot->next;
    return slot;
}

static inline void slot_push(uint32_t *list, struct slot *slot) {
    slot->next = *list;
    *list = slot_index(slot) + 1;
}

/* A slot for a block of these. NULL: none can be had. It belongs to the caller until slot_put. A slot that is new has
 * generation 0, and the index slots_count() - 1. */
static inline struct slot *slot_take(size_t size, size_t alignment) {
    uint32_t bits = slot_bits(size, alignment);
    if (UNLIKELY(bits == 0 || (size >= SLOT_LARGE && !slot_memory_allowed(size))))
        return NULL;
    struct slot_region *region = &slot_regions[bits - SLOT_SMALLEST];
    if (LIKELY(region->cached != 0)) {
        struct slot *slot = slot_pop(&region->cached);
        region->cached_count--;
        slots_cached_bytes -= slot_in_pages(slot->used);
        return slot;
    }
    return region->discarded != 0 ? slot_pop(&region->discarded) : slot_new(region, bits);
}

/* Ends its block. 0: the slot can be taken again. 1: the caller releases its memory by slot_discard. */
static inline int slot_put(struct slot *slot) {
    struct slot_region *region = &slot_regions[slot->size - SLOT_SMALLEST];
    uint64_t bytes = slots_cached_bytes + slot_in_pages(slot->used);
    slot->usable = 0;
    if (UNLIKELY(region->cached_count >= SLOTS_CACHED_EACH || bytes > SLOTS_CACHED_BYTES))
        return 1;
    region->cached_count++;
    slots_cached_bytes = bytes;
    slot_push(&region->cached, slot);
    return 0;
}

#endif

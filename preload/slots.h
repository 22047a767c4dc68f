/*
 * The addresses at which samples live: one reserved range, so that free knows them by a single comparison.
 *
 *   start                                                                                   start + bytes
 *   | slots of 4 KiB | of 8 KiB | of 16 KiB | …                                  | one of a whole region |
 *     2^region_bits    2^region_bits  …
 *
 * Slots of one size are a region. A block lies in its slot behind a header as glibc gives it to blocks that have a
 * mapping of their own: code that reaches glibc's free behind our back, as in a library opened with RTLD_DEEPBIND, frees
 * it as such, and all that happens is that its slot is not used again.
 *
 * Slots are never given back, their memory is: at once, but for a few of each size that are likely to be used again soon.
 * So a sample costs no system call where samples come and go, and unused memory stays below SLOTS_WARM_BYTES.
 */
#ifndef MALLOW_SLOTS_H
#define MALLOW_SLOTS_H

#include "sys.h"
#include "wire.h"

#define SLOTS_WARM_BYTES (4ull << 20)
#define SLOTS_WARM_EACH  16u

/* What is known of a slot, in private memory: what mallow sees in the process file is a copy. By index of the file's
 * slots[]; 0 is a slot as any other. */
struct slot {
    struct mallow_slot seen; /* its address is the block's while it is live */
    uint64_t start;
    uint64_t usable; /* bytes of the block that malloc_usable_size tells of; 0: no block */
    uint64_t used;   /* bytes from start on that may hold something else than zeros */
    uint32_t next;   /* in its list: index + 1 */
    uint8_t size;    /* 2^size bytes */
    uint64_t pad[4]; /* two cache lines: an index is a shift */
};

/* bytes 0: nothing is reserved. Written once, before the first block of it is given away. */
extern struct slot_range { uintptr_t start, bytes; } slot_range HIDDEN;

static inline int slot_holds(const void *block) {
    return (uintptr_t)block - slot_range.start < slot_range.bytes;
}

/* All that follows: call with sample_lock held, unless told otherwise. */

/* Reserves addresses, of at most `most` slots. 0: there are none. Lock or not: once in an image and its children. */
int slots_reserve(uint32_t most);

/* How many slots were ever used, and one of them. */
uint32_t slots_count(void);
extern struct slot *slots HIDDEN;
static inline struct slot *slot_at(uint32_t index) {
    return &slots[index];
}
static inline uint32_t slot_index(const struct slot *slot) {
    return (uint32_t)(slot - slots);
}

/* The slot that a block lies in, live or not; NULL for an address that no slot has had. Lock or not: of a block that the
 * caller owns. */
struct slot *slot_of(const void *block);

/* A slot for a block of these. NULL: none can be had. It belongs to the caller until slot_put. A slot that is new has
 * generation 0, and the index slots_count() - 1. */
struct slot *slot_take(size_t size, size_t alignment);

/* Puts a block into the slot; returns it. What of it may hold something else than zeros are its first *stale bytes. */
void *slot_fill(struct slot *slot, size_t size, size_t alignment, size_t *stale);

/* Whether a block of this size fits where another one is. */
int slot_fits(const struct slot *slot, size_t size);
/* Lets it have this size, of which nothing but what both have is kept. */
void slot_resize(struct slot *slot, size_t size);

/* Its block is no more. 0: the slot can be taken again. 1: the caller is to give back its memory by slot_clean, without
 * the lock, and then to put it by slot_put_clean, with it. */
int slot_put(struct slot *slot);
void slot_clean(struct slot *slot);
void slot_put_clean(struct slot *slot);

/* Slots whose memory nobody needed for a second, as a list: to be cleaned and put like the one above. NULL: none. */
#define SLOTS_COLD_NS 1000000000ull
extern uint64_t slots_looked_ns HIDDEN;
struct slot *slots_cool(uint64_t now_ns);
static inline struct slot *slots_cold(uint64_t now_ns) {
    return LIKELY(now_ns - slots_looked_ns < SLOTS_COLD_NS) ? NULL : slots_cool(now_ns);
}
struct slot *slot_next(const struct slot *slot);

#endif

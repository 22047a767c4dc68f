/*
 * The addresses at which samples live: one reserved range, so that free knows them by a single comparison.
 *
 *   start                                                                                   start + bytes
 *   | slots of 4 KiB | of 8 KiB | of 16 KiB | …                                  | one of a whole region |
 *     2^region_bits    2^region_bits  …
 *
 * Slots of one size are a region. A block lies in its slot behind a header as glibc gives it to blocks that have a
 * mapping of their own: code that reaches glibc's free behind our back, as in a library opened with RTLD_DEEPBIND,
 * frees it as such, and its slot is not used again, and nothing else happens.
 *
 * Slots are never given back, their memory is: at once, but for a few of each size that are likely to be used again
 * soon. So a sample costs no system call where samples come and go, and unused memory stays below SLOTS_CACHED_BYTES.
 */
#ifndef MALLOW_SLOT_POOL_H
#define MALLOW_SLOT_POOL_H

#include "base/entries.h"
#include "base/wire.h"

#define SLOTS_CACHED_BYTES (4ull << 20)
#define SLOTS_CACHED_EACH  16u

/* What is known of a slot, in private memory: what mallow sees in the process file is a copy. By index of the file's
 * slots[]; 0 is a slot as any other. */
struct slot {
    struct mallow_slot seen; /* its address is the block's while it is live */
    uint64_t start;
    uint64_t usable;  /* bytes of the block that malloc_usable_size returns; 0: no block */
    uint64_t used;    /* bytes from start on that may hold something else than zeros */
    uint32_t index;   /* in slots[] */
    uint32_t next;    /* in its list: index + 1 */
    uint8_t size;     /* 2^size bytes */
    uint64_t more[3]; /* of the room that serves it; two cache lines: an index leads to its slot by a shift */
};

#define SLOT_SMALLEST    12u
#define SLOT_REGION_MOST 38u
#define SLOT_SIZES       (SLOT_REGION_MOST - SLOT_SMALLEST + 1)

/* All slots of one size. They have 2^SLOT_SMALLEST bytes at least; a region has 2^SLOT_REGION_MOST, where there is
 * room for them: 256 GiB each, 7 TiB in all, where only addresses are used. */
struct slot_region {
    uint32_t *index; /* of slots, by their place; those below `places` are set */
    uint32_t places;
    uint32_t cached, cached_count, discarded; /* lists: index + 1 */
    uint64_t open;                            /* bytes from its start on that can be written to */
};

extern struct slot_region slot_regions[SLOT_SIZES] HIDDEN;
extern uint32_t slot_region_bits HIDDEN;
extern uint64_t slots_cached_bytes HIDDEN;
extern struct slot *slots HIDDEN;

/* All that follows: call with sample_lock held, unless stated otherwise. slot.h has what each sample needs. */

/* Reserves addresses, of at most `most` slots. 0: there are none. Lock or not: once in an image and its children. */
int slots_reserve(uint32_t most);

/*
 * For samples in place: an array of at most `most` slots without addresses. How many; 0: there is no memory. And gives
 * it back.
 */
uint32_t slots_make(uint32_t most);
void slots_unmake(void);
/* One of it that was never used. NULL: there is none. */
struct slot *slot_add(void);

/* The size of the array at `slots`. */
uint64_t slots_bytes(void);

/* How many slots were ever used, and one of them. */
uint32_t slots_count(void);
static inline struct slot *slot_at(uint32_t index) {
    return &slots[index];
}
static inline uint32_t slot_index(const struct slot *slot) {
    return slot->index;
}

/* A slot that was never used, of 2^size bytes. NULL: there is none. */
struct slot *slot_new(struct slot_region *region, uint32_t size);

/* 1 when the system would give as much memory as this at once. Lock or not. */
int slot_memory_allowed(size_t bytes);
/* Gives memory of slots back; it reads as zeros again. 0 or -errno. Lock or not. */
long slot_memory_discard(uint64_t start, size_t bytes);

/*
 * Releases the memory of a slot that slot_put did not cache, without the lock; then puts the slot in its list, with the
 * lock.
 */
void slot_discard(struct slot *slot);
void slot_put_discarded(struct slot *slot);

/* Cached slots that were not used for a second, as a list: to be discarded as above. NULL: none. */
#define SLOTS_IDLE_NS 1000000000ull
extern uint64_t slots_idle_check_ns HIDDEN;
struct slot *slots_take_idle(uint64_t now_ns);
static inline struct slot *slots_idle(uint64_t now_ns) {
    return LIKELY(now_ns - slots_idle_check_ns < SLOTS_IDLE_NS) ? NULL : slots_take_idle(now_ns);
}
struct slot *slot_next(const struct slot *slot);

#endif

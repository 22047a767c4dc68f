/*
 * Guarded slots: taking one that is ready, asking for more, finding one by an address, and what lies beside a block.
 *
 * A slot has 2^k pages, and a block has fewer: the next page is missing, and so is the last one of the slot before.
 * Call with sample_lock held, unless stated otherwise.
 */
#ifndef MALLOW_GUARD_SLOTS_H
#define MALLOW_GUARD_SLOTS_H

#include "arch.h"
#include "base/target.h"
#include "base/wire_guard.h"
#include "sample/sample_log.h"
#include "sample/slot_pool.h"

/* Pages of the table are made to exist in pieces of these many bytes. */
#define TABLE_PIECE (16ull << 10)

/* Beside struct slot, in its `more`. A slot's `used` is 1 while its block is live. */
struct guard_more {
    uint64_t freed_ns;
    uint32_t free_tid, free_stack;
    uint16_t pages;
    uint8_t operation; /* enum mallow_operation */
    uint8_t alignment; /* that operator new was called with: log2 + 1; 0: none */
    uint8_t patterned; /* of its pages, until it has a block: enum mallow_patterned */
    uint16_t reported; /* bytes right behind the block: a write of the kernel to them was an error already */
};

static inline struct guard_more *guard_more(struct slot *slot) {
    return (struct guard_more *)slot->more;
}

/* The guarded range; bytes 0: there is none. It lies at the end of owned_range. */
extern struct owned_range guard_range HIDDEN;
/* In the process file; NULL before there is one. */
extern struct mallow_guard *guard_shared HIDDEN;
extern struct mallow_guarded *guard_table HIDDEN;

static inline int guard_owns(const void *block) {
    return (uint64_t)block - guard_range.start < guard_range.bytes;
}

/* Of this image's own file: a forked child has its parent's until it opens one. */
static inline int guard_has_part(void) {
    return sample_log != NULL && sample_log->guard != 0;
}

static inline int guard_is_joined(void) {
    if (!guard_has_part())
        return 0;
    uint32_t state = __atomic_load_n(&guard_shared->state, __ATOMIC_RELAXED);
    return state == MALLOW_GUARD_TAKEN || state == MALLOW_GUARD_HANDLED;
}

/* Pages that a block of so many bytes has. 0: no slot has so many. Lock or not. */
uint32_t guard_pages(size_t bytes);

/* Chooses the range. 0: there are no addresses. Once in an image and its children. */
int guard_reserve(void);
/*
 * The process file, or the keeper, is new: the table gets all slots, and what had been asked of the old one is given
 * up.
 */
void guard_begin(void);

/* Pages are protected, and not missing; in an image and its children from then on. */
extern int guard_protects HIDDEN;
/* handler.c: begins with that, in a range that nobody has used otherwise. 0: there can be no handler. */
int guard_protect(void);
/* Sees that the signal handler is the first one: a program may have installed its own. 0: it cannot be. */
int guard_handle(void);
/* Whether a slot was ever made in the range. */
int guard_was_used(void);

/* Asks for a few small slots. */
void guard_ask_first(void);

/* A slot that is ready for a block of so many pages, which is the caller's until guard_put. NULL: there is none now.
 * `waits`: the ring that the caller may wait for; NULL: waiting is of no use. */
struct slot *guard_take(uint32_t pages, struct mallow_supply **waits, uint32_t *seen);
/* The memory of the slot was given back: it may be used again, once all others were. */
void guard_put(struct slot *slot);
/* What is known of its free, into the file. */
void guard_freed(struct slot *slot);
/* Gives the memory of a slot back: it is missing from here on. Lock or not. */
void guard_discard(const struct slot *slot);

/* The slot that an address lies in; NULL: there was none. */
struct slot *guard_slot_of(const void *block);

/* Puts a block into the slot; returns it. */
void *guard_fill(struct slot *slot, size_t size, size_t alignment);
/* By what it was allocated, into the file. */
void guard_allocated(struct slot *slot, enum mallow_operation operation, size_t alignment);
/* The thread's system call was given bytes behind a live block, the first one so far from the block's end: what the
 * next access of that thread to the missing page is reported as, until guard_not_given. 0: the page was filled
 * before, or there is no table. Lock or not. */
int guard_given(const struct slot *slot, uint32_t tid, uint64_t first);
/* Whether the keeper answered in between. Lock or not. */
int guard_not_given(const struct slot *slot);
/* The first byte beside a live block that something wrote to, and that is not reported; NULL: there is none. */
const uint8_t *guard_damage(struct slot *slot);

/* wait.c: sleeps for a moment while *word is expected, which the keeper changes. 0: it is gone or stopped, or
 * until_ns has come. Without the lock. */
int guard_wait(uint32_t *word, uint32_t expected, uint64_t until_ns);
/* A wait for the keeper takes no longer. */
#define GUARD_LONGEST_NS (2000ull * 1000000)

/* CLOCK_MONOTONIC without a system call, which a filter may forbid: exact enough to order a finding and a free. */
uint64_t guard_now_ns(void);

/* Wakes the keeper. */
void guard_wake(void);

#endif

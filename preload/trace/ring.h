/*
 * The producer's end of a thread's ring. preload/base/wire.h describes the records.
 *
 *      tail (mallow)           head (the owner)        limit: how far the owner may write without looking again
 *        v                       v                       v
 *   |    xxxxxxxxxxxxxxxxxxxxxxxx........................|        head - tail <= words; limit <= tail + words,
 *                                                                 and never past the end of the lap
 *
 * Invariant: words below head are complete records; only the owner moves head, only mallow moves tail.
 */
#ifndef MALLOW_RING_H
#define MALLOW_RING_H

#include "arch.h"
#include "base/sys.h"
#include "base/wire.h"

/* Words from the head on to those that are asked for ahead: mallow's processor had them last, and has to give each line
 * back. That takes 50 to 300 ns, and a thread at full speed writes a line in 50. */
#define RING_AHEAD 256u

struct ring {
    uint64_t *words;
    uint64_t mask; /* number of words - 1 */
    uint64_t head;
    uint64_t limit;
    struct mallow_thread *block;
};

/* Makes the beginning of the ring of a thread block, if it has none, and notes its size in the block. 0: there is no
 * room. For the block's owner. */
int ring_create(struct mallow_thread *block);

/* What the rings of so many threads take in a process file. */
uint64_t rings_bytes(uint32_t threads);

void ring_open(struct ring *ring, struct mallow_thread *block);

/* ring_room where the fast path does not do: makes more of the ring, begins the next lap, or waits for mallow. */
COLD uint64_t *ring_wait(struct ring *ring, uint64_t count);

/* Where the next record begins. Precondition: there is room for it. */
static inline uint64_t *ring_next(const struct ring *ring) {
    return &ring->words[ring->head & ring->mask];
}

/* Room for `count` words in a row, or NULL when the recording is over (the event is then counted as lost). */
static inline uint64_t *ring_room(struct ring *ring, uint64_t count) {
    if (LIKELY(ring->head + count <= ring->limit))
        return ring_next(ring);
    return ring_wait(ring, count);
}

/* Publishes the `count` words that were written to the room. */
static inline void ring_publish(struct ring *ring, uint64_t count) {
    ring->head += count;
    arch_prefetch_to_write(&ring->words[(ring->head + RING_AHEAD) & ring->mask]);
    __atomic_store_n(&ring->block->head, ring->head, __ATOMIC_RELEASE);
}

static inline uint64_t ring_word(uint64_t op, uint64_t flags, uint64_t argument) {
    return op << 56 | flags << 48 | (argument & 0xffffffffffffull);
}

/* Writes a record of one word. 0: the recording is over (see ring_room). */
static inline int ring_write(struct ring *ring, uint64_t word) {
    uint64_t *room = ring_room(ring, 1);
    if (UNLIKELY(room == NULL))
        return 0;
    *room = word;
    ring_publish(ring, 1);
    return 1;
}

#endif

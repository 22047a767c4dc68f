/*
 * The order between threads: which events take the next number of the process (ORDER records).
 *
 * A thread keeps its balance, the bytes that it allocated minus those that it freed, and a window around it. An event
 * that leaves the window is stamped, and the window is laid around it anew. So between two stamps a thread's part of
 * what is live varies by no more than the window's width, and whatever order the replay gives to events between stamps,
 * the sum over all threads is wrong by no more than the sum of the widths: 1/256 of the peak so far for all threads
 * together, or one block of at most ORDER_BLOCK_MOST bytes for a thread, where that is more
 * (docs/design/trace.md#the-peak has the proof). A pair of malloc and free of a small block stays inside; blocks that
 * are handed over leave it each time.
 *
 * A process with one thread stamps nothing. Its balance is kept all the same: it is what is live when a second thread
 * comes.
 *
 * Bytes are those of malloc_usable_size: that is what can be known of a block that is freed.
 */
#ifndef MALLOW_ORDER_H
#define MALLOW_ORDER_H

#include "base/real.h"
#include "trace/ring.h"

/* A thread's share of the peak within which it need not stamp: 1/256, divided by the number of threads. */
#define ORDER_PEAK_BITS 8u
/* A block up to this size may be allocated and freed, again and again, without a stamp; a larger one takes long
 * enough to write to. */
#define ORDER_BLOCK_MOST 4096u
/* A stamp that is only due by the clock or by MALLOW_ORDER_WORDS waits for an allocation, but not longer than so
 * many words: the replay lets a thread rest before its next stamp, and a thread is to rest when its temporary blocks
 * are freed. */
#define ORDER_PATIENCE 16u

/* A thread's. */
struct order {
    int64_t balance;
    int64_t floor;        /* of the window */
    uint64_t width;       /* of the window: balance - floor <= width */
    uint64_t quick_limit; /* up to which head of the ring events need not look at all this; others set it to 0 */
    uint64_t due;         /* the head from which on a stamp is due */
    uint64_t number;      /* of the last stamp; 0: none yet */
    uint64_t looked;      /* the head when it was looked last whether other threads stamped */
    int64_t settled;      /* part of the balance that is in the process's sum */
};

/* A thread begins: stamps at its first event. */
void order_begin(struct order *order);
/* The process has a second thread, so that its threads must stamp. */
void order_share(void);
/* Whether it has. */
extern int order_is_shared HIDDEN;
/* In a forked child: there is one thread. */
void order_forked(void);

/* The rest of order_event: something is due, or quick_limit is out of date. 0: the recording is over. */
COLD int order_settle(struct order *order, struct ring *ring, int64_t change);

/* An event of this thread that changes its balance. 0: the recording is over. */
static inline int order_event(struct order *order, struct ring *ring, int64_t change) {
    order->balance += change;
    uint64_t limit = ring->limit < order->due ? ring->limit : order->due;
    if (LIKELY((uint64_t)(order->balance - order->floor) <= order->width && ring->head < order->due &&
               limit == __atomic_load_n(&order->quick_limit, __ATOMIC_RELAXED)))
        return 1;
    return order_settle(order, ring, change);
}

/* Usable bytes of a block of glibc's: the head that glibc keeps before it, and reads when the block is freed. */
static inline int64_t order_bytes_in_head(const void *block) {
    return (int64_t)(((const uint64_t *)block)[-1] & ~7ull);
}

/* The same of any allocator's; 0 while nobody needs it. */
static inline int64_t order_bytes(void *block) {
    if (LIKELY(real_sizes == REAL_SIZES_IN_HEADS))
        return order_bytes_in_head(block);
    return order_is_shared && real_sizes == REAL_SIZES_BY_CALL ? (int64_t)real.malloc_usable_size(block) : 0;
}

#endif

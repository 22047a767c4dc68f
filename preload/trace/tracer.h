/*
 * A thread's tracer: what it keeps between events, and what frames each event.
 *
 * A stack that the ring has seen before is one number; one that is new is sent as what differs from the stack before
 * it.
 */
#ifndef MALLOW_TRACER_H
#define MALLOW_TRACER_H

#include "base/target.h"
#include "trace/order.h"
#include "trace/ring.h"
#include "walk/caller.h"
#include "walk/guard.h"
#include "walk/stacks.h"

/* Events of signal handlers that arrive while their thread is inside an event. */
#define PENDING_MOST 64u

struct pending {
    uint64_t word; /* head word of the record */
    uint64_t size;
    uint64_t pc;
};

/*
 * A thread's private state, one for each block of the process file; it stays with the block when that changes owners,
 * so the stacks that the ring knows stay known.
 *
 * Invariant: only the block's owner touches it; a signal handler that interrupts an event touches `pending` and
 * guard.pendings alone.
 */
struct tracer {
    struct guard guard;
    struct ring ring;
    uint64_t epoch;
    struct order order;
    struct stacks stacks;
    uint64_t packed; /* the last word of size and stack in the ring; PACKED_NONE: there is none */
    uint32_t generation;
    struct pending pending[PENDING_MOST];
};

/* The calling thread's, or NULL. */
extern _Thread_local struct tracer *own_tracer __attribute__((tls_model("initial-exec"))) HIDDEN;

/* The same; NULL also in a copied image. */
static inline struct tracer *thread_tracer(void) {
    return (struct tracer *)((uintptr_t)own_tracer & image_alive);
}

/* A thread's first event: takes a block, and says so in its ring. No handler may leave this by longjmp. */
COLD struct tracer *tracer_enter(void);

/* The process left its run: blocks of the next one have tracers anew. No thread has one. */
void tracers_forget(void);

/* mallow's clock moved, or stopped for good. 0: the recording is over. */
COLD int tracer_time_passed(struct tracer *tracer, uint64_t epoch);

/* Takes the number of the stack that was walked into use. 0: the recording is over. */
int tracer_stack(struct tracer *tracer);

/* Size and stack in one word, where there is no need of two. */
static inline uint64_t tracer_packed(const struct tracer *tracer, uint64_t size) {
    return size << MALLOW_STACK_BITS | tracer->stacks.numbers.last;
}

/* No word of size and stack: a block of this size has a WIDE_SIZE record. */
#define PACKED_NONE UINT64_MAX

/*
 * Writes the record of an allocation with the stack that is in use into room for two words. Returns its words: a loop
 * that allocates the same again and again fills the ring a third slower, and that is what mallow has to keep up with.
 */
static inline uint64_t tracer_write(struct tracer *tracer, uint64_t *room, uint64_t word, uint64_t size) {
    uint64_t packed = tracer_packed(tracer, size), same = packed == tracer->packed;
    room[0] = word | same * MALLOW_FLAG_SAME << 48;
    room[1] = packed;
    tracer->packed = packed;
    return 2 - same;
}

/* The same, with room of its own, for any size. */
void tracer_allocation(struct tracer *tracer, uint64_t word, uint64_t size);

/* An event in a signal handler, inside another event of the same thread. */
COLD void tracer_pend(struct tracer *tracer, uint64_t word, uint64_t size, uint64_t pc);
/* Writes what signal handlers left. */
COLD void tracer_flush(struct tracer *tracer);

/* Whether the event under way was left by longjmp. What it had half done is dropped. */
COLD int tracer_abandoned(struct tracer *tracer, uint64_t sp);

/* Begins an event that changes what is live by `change` bytes. NULL: nothing is to be written. */
static inline struct tracer *event_begin(struct caller caller, uint64_t word, uint64_t size, int64_t change) {
    struct tracer *t = own_tracer;
    if (UNLIKELY(thread_block() == NULL)) {
        if ((t = tracer_enter()) == NULL)
            return NULL;
    } else if (UNLIKELY(t == NULL || t->guard.inside != 0)) {
        if (t == NULL)
            return NULL; /* the C library, called by tracer_enter */
        if (!tracer_abandoned(t, caller.sp)) {
            tracer_pend(t, word, size, caller_pc(caller));
            return NULL;
        }
    }
    guard_enter(&t->guard, caller.sp);
    uint64_t epoch = __atomic_load_n(&target.control->epoch, __ATOMIC_RELAXED);
    if ((UNLIKELY(epoch != t->epoch) && !tracer_time_passed(t, epoch)) ||
        UNLIKELY(!order_event(&t->order, &t->ring, change))) {
        t->guard.inside = 0;
        return NULL;
    }
    return t;
}

static inline void event_end(struct tracer *t) {
    while (!guard_leave(&t->guard)) {
        t->guard.inside = (uint64_t)__builtin_frame_address(0);
        tracer_flush(t);
    }
}

#endif

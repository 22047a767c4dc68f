/* Keeps a signal handler out of the work that it interrupted. */
#ifndef MALLOW_GUARD_H
#define MALLOW_GUARD_H

#include "base/sys.h"
#include "walk/unwind.h"

/*
 * A thread's, and of one kind of work. `inside` is the frame address of the work under way, 0 between; a handler that
 * comes while it is not 0 adds to a list of the policy's, and counts in `pendings`.
 */
struct guard {
    uint64_t inside;
    uint32_t pendings;
};

static inline void guard_enter(struct guard *guard, uint64_t sp) {
    guard->inside = sp;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* 0: handlers left something to do. */
static inline int guard_leave(struct guard *guard) {
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    *(volatile uint64_t *)&guard->inside = 0;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return LIKELY(*(volatile uint32_t *)&guard->pendings == 0);
}

/* The work `inside` was left by longjmp out of a handler: nobody will finish it. That is certain only when the new
 * work is further out on the same stack. */
static inline int guard_is_abandoned(const struct guard *guard, struct unwinder *unwinder, uint64_t sp) {
    return unwind_owns(unwinder, sp) && unwind_owns(unwinder, guard->inside) && sp > guard->inside;
}

#endif

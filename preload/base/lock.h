/*
 * A lock for what happens seldom: images, threads, modules. All threads of a process may want it, none may hold it when
 * the target's own code runs.
 *
 * 0: free, 1: held, 2: held, and others may wait, as in the second mutex of Drepper's "Futexes Are Tricky". A forked
 * child sets it to 0: the holder may not exist there.
 */
#ifndef MALLOW_LOCK_H
#define MALLOW_LOCK_H

#include "base/sys.h"

static inline void lock_acquire(uint32_t *lock) {
    uint32_t expected = 0;
    if (__atomic_compare_exchange_n(lock, &expected, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return;
    while (__atomic_exchange_n(lock, 2, __ATOMIC_ACQUIRE) != 0)
        sys_futex_wait(lock, 2, 100);
}

static inline void lock_release(uint32_t *lock) {
    if (__atomic_exchange_n(lock, 0, __ATOMIC_RELEASE) == 2)
        sys_futex_wake(lock);
}

#endif

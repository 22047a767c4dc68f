/*
 * A lock like that of base/lock.h, for what is done many times a second, and is held for less than it takes to sleep.
 * Giving it back is a plain store: who came to wait between the look and the store has not gone to sleep yet, or else
 * wakes up by himself.
 *
 * So is taking it while the C library knows of no other thread, as its own malloc does: a locked instruction waits for
 * all stores before it. A signal handler between the look and the store gives the lock back before it returns, and one
 * that leaves by longjmp does not come back to the store. Starting threads is not a handler's to do (POSIX).
 */
#ifndef MALLOW_SAMPLE_QUICK_LOCK_H
#define MALLOW_SAMPLE_QUICK_LOCK_H

#include "arch.h"
#include "base/lock.h"

static inline int lock_quick_try(uint32_t *lock) {
    if (LIKELY(sys_single_threaded())) {
        if (UNLIKELY(*(volatile uint32_t *)lock != 0))
            return 0;
        *(volatile uint32_t *)lock = 1;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        return 1;
    }
    uint32_t expected = 0;
    return __atomic_compare_exchange_n(lock, &expected, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

/* Waits for about `tries` times 20 ms. 0: somebody still holds it. */
COLD __attribute__((unused)) static int lock_quick_wait(uint32_t *lock, unsigned tries) {
    for (int spins = 0; spins < 200; spins++) {
        arch_pause();
        if (__atomic_load_n(lock, __ATOMIC_RELAXED) == 0 && lock_quick_try(lock))
            return 1;
    }
    while (__atomic_exchange_n(lock, 2, __ATOMIC_ACQUIRE) != 0)
        if (sys_futex_wait(lock, 2, 20) && tries-- == 0)
            return 0;
    return 1;
}

static inline void lock_quick_release(uint32_t *lock) {
    if (LIKELY(__atomic_load_n(lock, __ATOMIC_RELAXED) == 1))
        __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
    else
        lock_release(lock);
}

#endif

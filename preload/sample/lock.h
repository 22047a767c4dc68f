/* The lock of samples: slots, the log and its stacks change under it. */
#ifndef MALLOW_SAMPLE_LOCK_H
#define MALLOW_SAMPLE_LOCK_H

#include "sample/quick_lock.h"

/* For a moment: 0 where it cannot be had. Nobody holds it while the target's code can run, but a thread that a
 * handler interrupts, or left by longjmp: so `holds`, if it is not NULL, is set from before it is taken until after
 * it is given back. */
extern uint32_t sample_lock_word HIDDEN;
COLD int lock_samples_slow(uint32_t *holds);

static inline int lock_samples(uint32_t *holds) {
    if (holds != NULL)
        *holds = 1;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return LIKELY(lock_quick_try(&sample_lock_word)) || lock_samples_slow(holds);
}

static inline void unlock_samples(uint32_t *holds) {
    lock_quick_release(&sample_lock_word);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (holds != NULL)
        *holds = 0;
}

/* Who held it was pulled out by longjmp, and half of a change was done: nothing is sampled any more. */
void lock_samples_abandoned(void);

/* Around fork: a child finds what the lock protects whole. holds: the calling thread has it already. */
void lock_samples_fork_begins(int holds);
void lock_samples_fork_ended(void);
void lock_samples_forked(void);
/* The process leaves its run: nobody holds the lock. */
void lock_samples_left(void);

/* Deferred frees of blocks of at least 16 bytes, while the lock is unavailable. sample_defer needs no lock. The next
 * holder of the lock takes all of them, as a list through the first word of each block; NULL: none.
 * sample_deferred: not 0 while there are some. */
extern uint32_t sample_deferred HIDDEN;
COLD void sample_defer(void *block);
COLD void *sample_take_deferred(void);

#endif

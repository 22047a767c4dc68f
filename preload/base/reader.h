/*
 * Waiting for mallow, which reads what this process writes. Every wait for it goes through here.
 *
 * Mallow may die, be stopped, or be slow. The kernel marks its death in the control page (control.reader): a load sees
 * it. That it is stopped is found by one process, whose wait was in vain for a tick of the clock, and written into the
 * page (control.silent) for all others and for later images: they do not wait before mallow's clock moves again. A
 * mallow that is slow, as on a busy machine, is waited for.
 */
#ifndef MALLOW_READER_H
#define MALLOW_READER_H

#include "base/target.h"

/* How one wait goes. Zeros at its beginning. */
struct patience {
    uint64_t epoch;    /* mallow's clock, */
    uint64_t since_ns; /* and when it was first seen to stand there */
    uint64_t asked_ns; /* when mallow was asked for a sign of life; 0: not yet */
    uint32_t ping;     /* what it was asked with */
};

/* Nobody reads any more: mallow died, or ended the recording. Never changes back in a traced or counted run. */
static inline int reader_is_gone(const struct mallow_control *control) {
    uint32_t reader = __atomic_load_n(&control->reader, __ATOMIC_ACQUIRE);
    return reader == 0 || (reader & MALLOW_READER_DIED) != 0 ||
           __atomic_load_n(&control->epoch, __ATOMIC_RELAXED) == MALLOW_EPOCH_OVER;
}

/*
 * Sleeps while *word is expected, `ms` milliseconds at the most. 0: it is not worth while to wait for mallow, now and
 * until its clock moves; then it costs two loads. The word may change, or mallow go, at any moment: look at both after
 * it.
 */
COLD int reader_wait(struct patience *patience, uint32_t *word, uint32_t expected, unsigned ms);

#endif

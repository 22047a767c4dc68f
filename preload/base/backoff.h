/* Asking again for what could not be had: after 10 ms, then after twice the time, 10 s at the most. */
#ifndef MALLOW_BACKOFF_H
#define MALLOW_BACKOFF_H

#include "base/sys.h"

#define BACKOFF_FIRST_NS (10ull * 1000000)
#define BACKOFF_MOST_NS  (10ull * 1000000000)

/* All zero: nothing was refused. */
struct backoff {
    uint64_t until_ns, pause_ns;
};

static inline int backoff_waits(const struct backoff *backoff) {
    return backoff->until_ns != 0 && sys_tick_ns() < backoff->until_ns;
}

static inline void backoff_refused(struct backoff *backoff) {
    uint64_t pause = backoff->pause_ns;
    backoff->pause_ns = pause == 0 ? BACKOFF_FIRST_NS : pause < BACKOFF_MOST_NS ? 2 * pause : pause;
    backoff->until_ns = sys_tick_ns() + backoff->pause_ns;
}

#endif

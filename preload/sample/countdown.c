/* A thread's countdown: where it begins, meets another period, or looks at the control page.  */
#include "sample/countdown.h"
#include "base/attachment.h"
#include "sample/sample.h"
#include "sample/sample_log.h"
#include "sample/sample_thread.h"

_Thread_local struct countdown countdown __attribute__((tls_model("initial-exec")));

/* The period to draw with; 0: not sampling. */
static uint32_t period_now(void) {
    const struct mallow_control *control = target.control;
    if (!is_sampling(control))
        return 0;
    uint64_t period = __atomic_load_n(&control->period, __ATOMIC_RELAXED);
    period = period != 0 ? period : 1;
    return period < MALLOW_PERIOD_MOST ? (uint32_t)period : MALLOW_PERIOD_MOST;
}

/* Redraws with the current period. The exponential distribution has no memory: a redraw is unbiased at any moment
 * that does not depend on the next allocation. */
COLD static void countdown_restart(struct countdown *c, uint32_t period) {
    c->period = period;
    count_down_from(c, period != 0 ? next_distance(c, period) : MALLOW_SAMPLE_LOOK);
    if (sample_log != NULL) {
        __atomic_store_n(&sample_log->mode, period != 0 ? MALLOW_MODE_SAMPLE : MALLOW_MODE_DORMANT, __ATOMIC_RELAXED);
        __atomic_store_n(&sample_log->period, period, __ATOMIC_RELAXED);
    }
}

/* A thread's first allocation, or a child's: it is picked with the chance that all have. Programs install their
 * seccomp filters later. A child that has patches is found, and freed from them, by its file. */
COLD static void thread_begins(struct countdown *c) {
    if (target.pid == 0 || attachment_is_late())
        sample_image_open();
    c->generator = generator_seeded();
    c->exponent = exponential_from_bits(generator_next(&c->generator));
    countdown_restart(c, period_now());
}

/* In a child, opening makes all begin anew: what was drawn, and with which generator, stands. */
COLD static void open_amid(struct countdown *c) {
    struct countdown drawn = *c;
    uint64_t left = allowance;
    sample_image_open();
    *c = drawn;
    allowance = left;
}

NOINLINE uint32_t should_sample_slow(size_t size) {
    struct countdown *c = &countdown;
    if (UNLIKELY(allowance == 0))
        thread_begins(c);
    uint32_t drawn = c->period, now = period_now();
    if (now != 0 && guarding_is_wanted() && guarding->is_due())
        open_amid(c);
    uint64_t total = allowance + c->rest;
    if (allowance_covers(size))
        return 0;
    if (drawn != 0 && size < total) {
        /* A look at the control page, and no more. A child makes its file now, that mallow knows what it inherited. */
        if (UNLIKELY(sample_log == NULL) && now != 0)
            open_amid(c);
        if (LIKELY(now == drawn))
            count_down_from(c, total - size);
        else
            countdown_restart(c, now);
        return 0;
    }
    if (now == drawn && now != 0) {
        count_down_from(c, next_distance(c, now));
        return drawn;
    }
    /* What was drawn with an older period stands, unless nothing is sampled any more. */
    countdown_restart(c, now);
    return now != 0 ? drawn : 0;
}

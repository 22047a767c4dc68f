/*
 * Which allocations are picked. The chance depends on an allocation's size and the period alone; no thread, and no
 * thread's first allocation, is favoured.
 */
#ifndef MALLOW_COUNTDOWN_H
#define MALLOW_COUNTDOWN_H

#include "base/entries.h"
#include "base/target.h"
#include "sample/exponential.h"
#include "sample/sample_log.h"

/*
 * A thread's countdown to its next picked byte. allowance + rest is what was drawn: rest is kept apart so that a thread
 * looks at the control page now and then.
 */
struct countdown {
    uint64_t rest;
    uint64_t exponent; /* of the next draw, made in advance: its chain of products is 10 ns that nothing waits for */
    uint32_t period;   /* that this was drawn with; 0: dormant, nothing is picked */
    struct generator generator;
};

extern _Thread_local struct countdown countdown __attribute__((tls_model("initial-exec"))) HIDDEN;
static inline int is_sampling(const struct mallow_control *control) {
    return __atomic_load_n(&control->mode, __ATOMIC_RELAXED) == MALLOW_MODE_SAMPLE &&
           __atomic_load_n(&control->epoch, __ATOMIC_RELAXED) != MALLOW_EPOCH_OVER &&
           !__atomic_load_n(&sample_is_over, __ATOMIC_RELAXED);
}

/* Whether the period, which is one that was drawn with, is still that of now. */
static inline int period_is(uint32_t period) {
    const struct mallow_control *control = target.control;
    return LIKELY(is_sampling(control) && __atomic_load_n(&control->period, __ATOMIC_RELAXED) == period);
}

static inline void count_down_from(struct countdown *c, uint64_t bytes) {
    uint64_t left = bytes < MALLOW_SAMPLE_LOOK ? bytes : MALLOW_SAMPLE_LOOK;
    allowance = left;
    c->rest = bytes - left;
}

static inline uint64_t next_distance(struct countdown *c, uint32_t period) {
    uint64_t bytes = exponential_distance(c->exponent, period);
    c->exponent = exponential_from_bits(generator_next(&c->generator));
    return bytes;
}

/* should_sample, for a thread that begins, looks at the control page, or meets another period. */
uint32_t should_sample_slow(size_t size);

/*
 * Precondition: the allowance does not cover the size. Returns the period that the allocation is picked with; 0: it is
 * not.
 */
static inline uint32_t should_sample(size_t size) {
    struct countdown *c = &countdown;
    uint32_t drawn = c->period;
    if (UNLIKELY(size < allowance + c->rest || drawn == 0 || !period_is(drawn)))
        return should_sample_slow(size);
    count_down_from(c, next_distance(c, drawn));
    return drawn;
}

/* The period that an allocation is picked with, where the thread's allowance was not looked at; 0: it is not. */
static inline uint32_t sample_pick(size_t size) {
    return LIKELY(allowance_covers(size)) ? 0 : should_sample(size);
}

#endif

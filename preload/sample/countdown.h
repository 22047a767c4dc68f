/*
 * Which allocations are picked. The chance depends on an allocation's size and the period alone; no thread, and no
 * thread's first allocation, is favoured.
 */
#ifndef MALLOW_PICK_H
#define MALLOW_PICK_H

#include "base/target.h"
#include "sample/exponential.h"

/*
 * A thread's countdown. What entries.c does for each allocation: where `left` is larger than its size, subtract, and go on
 * to the allocator beneath.
 *
 * left is 0 in a thread that did not allocate yet, and always where nothing is sampled. left + rest is what was drawn; rest
 * is kept apart so that a thread looks at the control page now and then.
 */
struct countdown {
    uint64_t left, rest;
    uint64_t exponent; /* of the next draw, made beforehand: its chain of products is 10 ns that nothing waits for */
    uint32_t period;   /* that this was drawn with; 0: dormant, nothing is picked */
    struct dice dice;
};

extern _Thread_local struct countdown countdown __attribute__((tls_model("initial-exec"))) HIDDEN;
extern int sample_is_over HIDDEN;

/* Nothing is picked from here on; slots are served to the end. */
void sample_over(enum mallow_over why);

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
    c->left = bytes < MALLOW_SAMPLE_LOOK ? bytes : MALLOW_SAMPLE_LOOK;
    c->rest = bytes - c->left;
}

static inline uint64_t draw_next(struct countdown *c, uint32_t period) {
    uint64_t bytes = draw(c->exponent, period);
    c->exponent = draw_exponent(dice_next(&c->dice));
    return bytes;
}

/* pick, for a thread that begins, looks at the control page, or meets another period. */
uint32_t pick_slowly(size_t size);

/* Precondition: left is not larger than size. Returns the period that the allocation is picked with; 0: it is not. */
static inline uint32_t pick(size_t size) {
    struct countdown *c = &countdown;
    uint32_t drawn = c->period;
    if (UNLIKELY(size < c->left + c->rest || drawn == 0 || !period_is(drawn)))
        return pick_slowly(size);
    count_down_from(c, draw_next(c, drawn));
    return drawn;
}

/* What entries.c does, for the functions that come here at once. */
static inline int passes(size_t size) {
    uint64_t left = countdown.left;
    if (UNLIKELY(size >= left))
        return 0;
    countdown.left = left - size;
    return 1;
}

#endif

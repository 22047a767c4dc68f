/* Sampling: picked allocations live in slots, and mallow is told of them. See wire.h, struct mallow_sampling. */
#ifndef MALLOW_SAMPLE_H
#define MALLOW_SAMPLE_H

#include "draw.h"
#include "slots.h"

/*
 * A thread's countdown. What entry.c does for each allocation: where `left` is larger than its size, subtract, and go on
 * to the allocator beneath.
 *
 * left is 0 in a thread that did not allocate yet, and always where nothing is sampled. left + rest is what was drawn; rest
 * is kept apart so that a thread looks at the control page now and then.
 */
struct countdown {
    uint64_t left, rest;
    uint32_t period; /* that it was drawn with; 0: dormant, nothing is picked */
    struct dice dice;
};

extern _Thread_local struct countdown countdown __attribute__((tls_model("initial-exec"))) HIDDEN;

/* Where left is not larger than the size, nor 0. These jump on or serve the call. */
void *sample_malloc(size_t size);
void *sample_calloc(size_t count, size_t size);
/* Of a block in a slot. */
void sample_free(void *block);
size_t sample_usable_size(const void *block);

/* From start(): before the policy is installed. */
void sample_setup(void);
/* Nothing is picked from here on; slots are served to the end. */
void sample_over(void);

/* Around fork, so that a child finds slots and book whole. */
void sample_fork_begins(void);
void sample_forked_parent(void);
void sample_forked_child(void);

#endif

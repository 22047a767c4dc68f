/* Sampling: picked allocations live in slots, and mallow is told of them. See wire.h, struct mallow_sampling. */
#ifndef MALLOW_SAMPLE_H
#define MALLOW_SAMPLE_H

#include "sample/countdown.h"
#include "sample/slot_pool.h"

/* Where left is not larger than the size, nor 0. These jump on or serve the call. */
void *sample_malloc(size_t size);
void *sample_calloc(size_t count, size_t size);
/* Of a block in a slot. */
void sample_free(void *block);
size_t sample_usable_size(const void *block);

/* From start(): before the policy is installed. */
void sample_setup(void);
/* Around fork, so that a child finds slots and book whole. */
void sample_fork_begins(void);
void sample_forked_parent(void);
void sample_forked_child(void);

#endif

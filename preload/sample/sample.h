/* Sampling: picked allocations live in slots, and are reported to mallow. See wire.h, struct mallow_sampling. */
#ifndef MALLOW_SAMPLE_H
#define MALLOW_SAMPLE_H

#include "sample/countdown.h"
#include "sample/slot_pool.h"

extern const struct policy sample_policy HIDDEN;

/* Around fork, so that a child finds slots and log whole. */
void sample_fork_begins(void);
void sample_forked_child(void);

#endif

/* Sampling: picked allocations live in slots, and are reported to mallow. See wire.h, struct mallow_sampling. */
#ifndef MALLOW_SAMPLE_H
#define MALLOW_SAMPLE_H

#include "sample/countdown.h"
#include "sample/slot_pool.h"

extern const struct policy sample_policy HIDDEN;

/* Samples that stay where the allocator put them, in a process that mallow attached to: inplace/. */
struct inplace_sampling {
    const struct policy *policy; /* its entry functions; the rest of a policy is sample_policy's */
    int (*make)(uint32_t most);  /* once in an image; 0: there is no memory */
    void (*settle)(void);        /* ends the samples whose ends were deferred; with sample_lock held */
    void (*left)(void);          /* the process leaves its run */
};

/* Of this build, beside its table of policies. NULL: it has none, and mallow cannot attach to it. */
extern const struct inplace_sampling *const inplace HIDDEN;

/* Samples in slots whose surroundings and whose freed memory catch wrong accesses: guard/. */
struct guarding {
    const struct policy *(*policy)(void); /* its entry functions; the rest of a policy is sample_policy's */
    /* Its part of a process file with so many slots, which begins at `from`: where it ends. */
    uint64_t (*layout)(uint64_t from, uint32_t max_slots);
    int (*is_due)(void); /* mallow guards, and this image takes no part in that as yet */
    void (*join)(void);  /* where that is so, it does; the file is there and mallow can see it. With target_lock held */
};

/* Of this build. NULL: it has none. */
extern const struct guarding *const guarding HIDDEN;

static inline int guarding_is_wanted(void) {
    return guarding != NULL && (target.control->flags & MALLOW_GUARD) != 0;
}

/* Around fork, so that a child finds slots and log whole. */
void sample_fork_begins(void);
void sample_forked_child(void);

#endif

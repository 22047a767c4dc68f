/*
 * Programs that shut themselves in by a filter of system calls (seccomp). A call that it forbids may kill the process, and
 * there is no way to ask the kernel. So filters are looked at as they are installed: what Mallow calls at a sample is
 * tried on the filter itself.
 *
 * Seen are filters that come by prctl() and syscall() of the C library. One that stood before exec is the business of
 * who set it: the program starts under it, and so does Mallow.
 */
#ifndef MALLOW_FILTER_H
#define MALLOW_FILTER_H

#include "base/sys.h"

enum filter_state {
    FILTER_NONE = 0,
    FILTER_LENIENT = 1, /* what a sample needs is allowed, or refused with an error; other calls are not known to be */
    FILTER_STRICT = 2,  /* nothing more may be called on behalf of samples */
};

/* Only rises. */
extern uint32_t filter_state HIDDEN;

/* 1: a filter came that would punish a look at a file, in any mode. */
extern uint32_t filter_forbids_files HIDDEN;

/* 1: a filter came, in any mode. What can be done without, as a question to the kernel, is not done any more. */
extern uint32_t filter_seen HIDDEN;

static inline int filter_is_seen(void) {
    return UNLIKELY(__atomic_load_n(&filter_seen, __ATOMIC_RELAXED));
}

static inline int filter_is_strict(void) {
    return UNLIKELY(__atomic_load_n(&filter_state, __ATOMIC_RELAXED) == FILTER_STRICT);
}

/* Files may be opened: for modules that come, and for a child's own recording. */
static inline int filter_is_none(void) {
    return LIKELY(__atomic_load_n(&filter_state, __ATOMIC_RELAXED) == FILTER_NONE);
}

/* Once, early: where filters matter. */
void filter_setup(void);

#endif

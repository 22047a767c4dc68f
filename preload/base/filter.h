/*
 * Programs that sandbox themselves with a filter of system calls (seccomp). A call that it forbids may kill the
 * process, and there is no way to ask the kernel. So filters are looked at when they have been installed: what Mallow
 * calls at a sample is tried on the filter itself. A call that fails installs none, and changes nothing.
 *
 * Seen are filters that come by prctl() and syscall() of the C library, which are patched where mallow attached. One
 * that stood before exec is the business of who set it: the program starts under it, and so does Mallow.
 */
#ifndef MALLOW_FILTER_H
#define MALLOW_FILTER_H

#include "base/sys.h"

enum filter_state {
    FILTER_SEEN = 1, /* a filter came: what can be done without, as a question to the kernel, is not done any more */
    FILTER_FORBIDS_FILES = 2,    /* it would punish to open a file */
    FILTER_FORBIDS_SAMPLES = 4,  /* nothing more may be called on behalf of samples */
    FILTER_FORBIDS_WAITS = 8,    /* it would punish or refuse what a wait at exit calls */
    FILTER_FORBIDS_REGIONS = 16, /* it would punish what a region calls */
    FILTER_TRIAL = 256, /* one system call that may install a filter: from here on a number, of those under way */
};

/* Or-ed; below FILTER_TRIAL, bits are only added. */
extern uint32_t filter_state HIDDEN;

static inline int filter_is(enum filter_state state) {
    return UNLIKELY((__atomic_load_n(&filter_state, __ATOMIC_RELAXED) & (state | ~(uint32_t)(FILTER_TRIAL - 1))) != 0);
}

/* Finds what prctl and syscall lead to. Once, early. */
void filter_setup(void);

/* Our own exported functions, by names that nobody else can define. */
extern int filter_prctl(int option, long a, long b, long c, long d) HIDDEN;
extern long filter_syscall(long number, long a, long b, long c, long d, long e, long f) HIDDEN;
/* Where their calls go on, in a process that mallow attached to: what the C library's do without their patches. */
void filter_go_on_at(uint64_t prctl, uint64_t syscall);

#endif

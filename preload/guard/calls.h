/* Buffers of system calls. */
#ifndef MALLOW_GUARD_CALLS_H
#define MALLOW_GUARD_CALLS_H

#include "base/sys.h"

/*
 * Something is guarded from here on: buffers are checked. At any time, again and again; with sample_lock held or not.
 */
void calls_check(void) HIDDEN;

#endif

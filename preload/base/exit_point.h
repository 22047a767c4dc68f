/*
 * Where a thread waits at the exit of its image, for those who read the image's memory meanwhile.
 */
#ifndef MALLOW_EXIT_POINT_H
#define MALLOW_EXIT_POINT_H

#include <signal.h>
#include <stddef.h>

#include "arch.h"
#include "base/attachment.h"
#include "base/filter.h"
#include "base/wire.h"

/* `frame`: of the function that waits. The stack for signals is asked for only where no filter can punish the question:
 * of a process that was attached to, nobody has tried that call on the filters that it had. */
static inline void exit_point_set(struct mallow_process *process, const void *frame) {
    stack_t signals;
    process->exit_sp = arch_exit_frames_end((uint64_t)frame);
    process->exit_thread = (uint64_t)__builtin_thread_pointer();
    if (!filter_is(FILTER_SEEN) && !attachment_is_late() && sigaltstack(NULL, &signals) == 0 &&
        (signals.ss_flags & SS_DISABLE) == 0)
        process->exit_signals = (uint64_t)signals.ss_sp;
}

#endif

/* The arguments that a process shows at its exit, which may be others than those that it began with. */
#ifndef MALLOW_SCAN_ARGUMENTS_H
#define MALLOW_SCAN_ARGUMENTS_H

#include "base/wire.h"

/* Puts them into the process file in place of those noted at the start, where they are known. Without a system call. */
void arguments_note(struct mallow_process *process);

#endif

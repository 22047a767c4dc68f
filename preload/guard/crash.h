/* Signals that would end the program: reported to the keeper first. */
#ifndef MALLOW_GUARD_CRASH_H
#define MALLOW_GUARD_CRASH_H

#include <signal.h>

/*
 * Where nothing handles a signal of a crash, on_crash does from here on. Once an image is guarded; again does nothing.
 */
void crash_watch(void);
/* Reports a signal that ends the program as soon as the caller's handler returns, and waits for the keeper,
 * GUARD_LONGEST_NS at the most. The signal is sent once more; the caller sees to it that its action is the default
 * one. */
void crash_report(int number, siginfo_t *info, void *context);

#endif

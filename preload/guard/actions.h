/* The actions of signals: those that guarding sets, and what the program sees of them. */
#ifndef MALLOW_GUARD_ACTIONS_H
#define MALLOW_GUARD_ACTIONS_H

#include <signal.h>
#include <stddef.h>

typedef void action_handler(int number, siginfo_t *info, void *context);

/* The C library's sigaction: an action as the kernel has it. */
int actions_set(int number, const struct sigaction *action, struct sigaction *old);
/* Of this signal, where it has this handler, the program sees *program, and where the program sets the default
 * action, the handler comes back and *program is that. */
void actions_hide(int number, action_handler *handler, struct sigaction *program);
/* From here on this handler takes the place of the default action of these signals, once each time. The list stays. */
void actions_take_defaults(const int *numbers, size_t count, action_handler *handler);

#endif

/*
 * A run directory to which no path of the process leads: it has another mount namespace or root directory, or another
 * user. A descriptor of it comes by a socket, and stays open, for forked children and unwind tables, until the process
 * leaves the run.
 */
#ifndef MALLOW_ARRIVAL_H
#define MALLOW_ARRIVAL_H

/* Waits for mallow to send the descriptor; files are opened by it from then on. 0, or -1: none came. */
int arrival_await(void);
/* Closes it. System calls alone. */
void arrival_leave(void);

#endif

/*
 * Programs that are executed out of reach: in a mount namespace with a /dev/shm of its own, below another root
 * directory, as another user. The image to come could not say so itself, so the one that executes it does.
 */
#ifndef MALLOW_EXEC_H
#define MALLOW_EXEC_H

/* Looks the C library's functions up: after fork there may be no way to. Once, from the constructor. */
void exec_setup(void);

#endif

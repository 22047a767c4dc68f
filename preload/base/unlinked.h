/*
 * Programs into which no dynamic linker loads a library: statically linked ones, and those of 32 bits.
 */
#ifndef MALLOW_UNLINKED_H
#define MALLOW_UNLINKED_H

#include <stddef.h>

/*
 * Whether `program`, or the interpreter that its first line names, is one. `searches`: a name without a slash is looked
 * for in PATH, as execvp does. `path` is then its absolute path, or as it was named where /proc does not show that.
 * 0: it is none, or cannot be read. Safe between vfork and exec.
 */
int is_unlinked(const char *program, int searches, char *path, size_t bytes);

#endif

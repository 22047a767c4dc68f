/* Functions of musl's allocator that call others of it by their public names. */
#ifndef MALLOW_MUSL_H
#define MALLOW_MUSL_H

#include "base/entries.h"

/*
 * Replaces in *found those functions that are musl's own and call others of *found by name: the dynamic linker leads
 * these calls to our entries, and one call of the program would be two. What takes their place calls *found itself.
 * Nothing happens with another C library, and to functions of an allocator that the program brings.
 */
void musl_call_once(struct allocator *found);

#endif

/* Finding the allocator beneath, and memory for calls made while finding it. */
#ifndef MALLOW_REAL_H
#define MALLOW_REAL_H

#include "entries.h"

/* Fills `real`. Calls of the allocator that dlsym makes meanwhile must go to bootstrap. */
void real_resolve(void);

extern const struct allocator bootstrap HIDDEN;

#endif

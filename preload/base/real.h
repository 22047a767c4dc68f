/* Finding the underlying allocator, and memory for calls made while finding it. */
#ifndef MALLOW_REAL_H
#define MALLOW_REAL_H

#include "base/entries.h"

/* Finds the underlying allocator. Calls of the allocator that dlsym makes meanwhile must go to bootstrap. */
void real_resolve(struct allocator *found);

extern const struct allocator bootstrap HIDDEN;

/* Whether it is a block of bootstrap's. */
int real_lent(const void *block);

/* How the usable size of one of its blocks can be known. */
enum real_sizes {
    REAL_SIZES_UNKNOWN,  /* it has no malloc_usable_size of its own */
    REAL_SIZES_BY_CALL,  /* by malloc_usable_size */
    REAL_SIZES_IN_HEADS, /* it is glibc's: in the word before the block, with three flags in the lowest bits */
};

extern enum real_sizes real_sizes HIDDEN;
enum real_sizes real_sizes_of(const struct allocator *found);

#endif

/* Whether what is to be freed is no block of the C library's allocator. */
#ifndef MALLOW_GUARD_FOREIGN_H
#define MALLOW_GUARD_FOREIGN_H

#include "base/wire_guard.h"

/*
 * `block` is not NULL, and no address of Mallow's own. That it is none is certain; it may be one where the underlying
 * allocator is another one.
 */
enum mallow_foreign foreign_is(const void *block);

#endif

/* operator new and operator delete, under guarding. */
#ifndef MALLOW_OPERATORS_H
#define MALLOW_OPERATORS_H

#include "guard/mismatch.h"
#include "walk/caller.h"

/* entries.c. `alignment`: 0 (none was asked for), or that of a pointer at least. NULL: there is no memory. */
void *guard_operator_new(size_t size, size_t alignment, enum mallow_operation operation, struct caller caller);
void guard_operator_delete(void *block, struct freeing how, struct caller caller);

#endif

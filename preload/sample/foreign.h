/* Functions of the underlying allocator that take blocks and are not interposed. */
#ifndef MALLOW_FOREIGN_H
#define MALLOW_FOREIGN_H

#include "base/sys.h"

/* Whether a module of this image imports one. */
extern int foreign_functions HIDDEN;

/* Finds out. Takes the lock of the dynamic linker's list. */
void foreign_functions_find(void);

#endif

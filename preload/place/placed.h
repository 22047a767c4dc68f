/* The entry functions of sampling in place. */
#ifndef MALLOW_PLACED_H
#define MALLOW_PLACED_H

#include "base/entries.h"

/* Its hooks are sample_policy's. */
extern const struct policy placed_policy HIDDEN;

#endif

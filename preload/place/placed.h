/* Sampling in place: the entry functions, and what sample/ calls of it. */
#ifndef MALLOW_PLACED_H
#define MALLOW_PLACED_H

#include "sample/sample.h"

extern const struct placing placed HIDDEN;

#endif

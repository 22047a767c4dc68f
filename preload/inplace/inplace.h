/* Sampling in place: the entry functions, and what sample/ calls of it. */
#ifndef MALLOW_INPLACE_H
#define MALLOW_INPLACE_H

#include "sample/sample.h"

extern const struct inplace_sampling inplace_sampling HIDDEN;

#endif

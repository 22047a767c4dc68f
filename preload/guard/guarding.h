/* Guarding: the entry functions, and what sample/ calls of it. */
#ifndef MALLOW_GUARDING_H
#define MALLOW_GUARDING_H

#include "sample/sample.h"

extern const struct guarding guarding_room HIDDEN;

#endif

/* Counting: counters of each thread and nothing else. */
#ifndef MALLOW_COUNT_H
#define MALLOW_COUNT_H

#include "base/entries.h"

extern const struct policy count_policy HIDDEN;

#endif

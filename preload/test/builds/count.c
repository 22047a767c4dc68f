/* Counting alone. */
#include "count/count.h"

const struct policy *const policies[MALLOW_MODE_DORMANT + 1] = {[MALLOW_MODE_COUNT] = &count_policy};

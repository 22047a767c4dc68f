/* Sampling alone. */
#include "sample/sample.h"

const struct policy *const policies[MALLOW_MODE_DORMANT + 1] = {
    [MALLOW_MODE_SAMPLE] = &sample_policy, [MALLOW_MODE_DORMANT] = &sample_policy};

const struct inplace_sampling *const inplace = NULL;
const struct guarding *const guarding = NULL;

/* Tracing alone. */
#include "trace/trace.h"

const struct policy *const policies[MALLOW_MODE_DORMANT + 1] = {[MALLOW_MODE_TRACE] = &trace_policy};

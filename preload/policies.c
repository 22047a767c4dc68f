/* The policies of this build, by mode. A build of some rooms alone has a table of its own: preload/test/builds. */
#include "count/count.h"
#include "guard/guarding.h"
#include "inplace/inplace.h"
#include "sample/sample.h"
#include "trace/trace.h"

const struct policy *const policies[] = {[MALLOW_MODE_COUNT] = &count_policy,
                                         [MALLOW_MODE_TRACE] = &trace_policy,
                                         [MALLOW_MODE_IDLE] = &no_policy,
                                         [MALLOW_MODE_SAMPLE] = &sample_policy,
                                         [MALLOW_MODE_DORMANT] = &sample_policy};

const struct inplace_sampling *const inplace = &inplace_sampling;
const struct guarding *const guarding = &guarding_room;

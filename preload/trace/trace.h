/* Tracing: every allocation and free becomes a record in its thread's ring. */
#ifndef MALLOW_TRACE_H
#define MALLOW_TRACE_H

#include "base/entries.h"

extern const struct policy trace_policy HIDDEN;
/* From here on events are counted as lost: the process can no longer be traced. */
void lost_begin(void);

/* Writes that a run of a measured region begins or ends. */
void trace_region(uint32_t number, int end, int this_thread);

#endif

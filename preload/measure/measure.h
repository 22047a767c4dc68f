/* Measured regions, and the proof that counting works. */
#ifndef MALLOW_MEASURE_H
#define MALLOW_MEASURE_H

#include <stdint.h>

/* Makes known calls and writes what was counted, where the control page asks for it. From the constructor, in counting
 * mode. The calls are taken out of the counters again. */
void measure_check(void);

/* trace.c: writes that a run of a region begins or ends. */
void trace_region(uint32_t number, int end, int this_thread);

#endif

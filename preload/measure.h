/* Measured regions, and the proof that counting works. */
#ifndef MALLOW_MEASURE_H
#define MALLOW_MEASURE_H

/* Makes known calls and writes what was counted, where the control page asks for it. From the constructor, in counting
 * mode. The calls are taken out of the counters again. */
void measure_check(void);

#endif

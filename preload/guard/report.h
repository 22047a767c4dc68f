/* Errors that are found here, and not by the keeper: said in the process file. */
#ifndef MALLOW_GUARD_REPORT_H
#define MALLOW_GUARD_REPORT_H

#include "guard/mismatch.h"

/* With sample_lock held. slot: NULL: none. */
void guard_report(enum mallow_guard_error kind, const void *address, const struct slot *slot, uint32_t tid,
                  uint32_t stack);
/* The block of a slot is freed by an operation that is not its own. */
void report_mismatch(const struct slot *slot, struct freeing how, uint32_t tid, uint32_t stack);
/* Without it: ends the program, where that is wanted. */
void guard_reported(void);

/* join.c */
uint64_t guard_layout(uint64_t from, uint32_t max_slots);
int guard_is_due(void);
void guard_join(void);

#endif

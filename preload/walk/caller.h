/* Where a call came from: what an unwind starts with. */
#ifndef MALLOW_CALLER_H
#define MALLOW_CALLER_H

#include "arch.h"
#include "walk/unwind.h"

/* The caller's registers after the call. Its sp is the CFA, whose return slot says where it goes on. */
struct caller {
    uint64_t sp, fp;
};

static inline struct caller caller_of(const struct arch_frame *frame) {
    return (struct caller){(uint64_t)(frame + 1), frame->caller_fp};
}

/* Of the function that this stands in. */
#define CALLER caller_of((const struct arch_frame *)__builtin_frame_address(0))

static inline uint64_t caller_pc(struct caller caller) {
    return load_word(rule_return_slot(caller.sp));
}

#endif

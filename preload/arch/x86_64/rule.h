/*
 * Unwind rules of x86-64: how the caller's registers follow from a frame's. mallow writes them into a module's table
 * (struct mallow_table in base/wire.h), the target steps by them; crates/arch/src/x86_64/rule.rs mirrors this file.
 *
 *      higher addresses
 *   |  caller's frame          |
 *   +--------------------------+ <- CFA: the caller's rsp after the call
 *   |  return address          |    CFA - 8
 *   |  saved rbp, if any       |    CFA - 16 as a rule
 *   |  …                       |
 *   +--------------------------+ <- rsp
 *
 * Nearly all rules have a quick form of 16 bits. Each kind of it has a name, as in framehop:
 *
 *    15       14    10     9      8        0
 *   +---+-------------+--------+-----------+
 *   | 0 |      0      |   0    |  CFA / 8  |     OFFSET_SP                 CFA = rsp + offset, rbp unchanged
 *   | 0 |      k      |   0    |  CFA / 8  |     OFFSET_SP_AND_RESTORE_BP  rbp restored from CFA - 8 * k
 *   | 0 |      0      |   1    |  CFA / 8  |     OFFSET_BP                 CFA = rbp + offset, rbp unchanged
 *   | 0 |      k      |   1    |  CFA / 8  |     OFFSET_BP_AND_RESTORE_BP  with 16 and 16: a frame pointer
 *   +---+-------------+--------+-----------+
 *   | 1 |      index of the rule           |     WHOLE_RULE                everything else; 0 and 1 are NONE and END
 *   +---+----------------------------------+
 */
#ifndef MALLOW_RULE_H
#define MALLOW_RULE_H

#include <stdint.h>

#define MALLOW_QUICK_RULE      0x8000u
#define MALLOW_QUICK_BASE_RBP  0x0200u
#define MALLOW_QUICK_CFA_MASK  0x01ffu
#define MALLOW_QUICK_RBP_SHIFT 10
#define MALLOW_QUICK_RBP_MASK  0x1fu

/* By bytes: from the base to the CFA, and from the CFA down to where rbp was saved. */
#define MALLOW_QUICK_OFFSET_SP(cfa)                     ((cfa) / 8)
#define MALLOW_QUICK_OFFSET_SP_AND_RESTORE_BP(cfa, rbp) ((rbp) / 8 << MALLOW_QUICK_RBP_SHIFT | (cfa) / 8)
#define MALLOW_QUICK_OFFSET_BP(cfa)                     (MALLOW_QUICK_BASE_RBP | (cfa) / 8)
#define MALLOW_QUICK_OFFSET_BP_AND_RESTORE_BP(cfa, rbp)                                                                \
    (MALLOW_QUICK_BASE_RBP | (rbp) / 8 << MALLOW_QUICK_RBP_SHIFT | (cfa) / 8)
#define MALLOW_QUICK_WHOLE_RULE(index) (MALLOW_QUICK_RULE | (index))

#define MALLOW_RULE_NONE 0u
#define MALLOW_RULE_END  1u

enum mallow_cfa_kind {
    MALLOW_CFA_NONE = 0,   /* no information */
    MALLOW_CFA_END = 1,    /* the outermost frame */
    MALLOW_CFA_OFFSET = 2, /* reg + offset */
    MALLOW_CFA_DEREF = 3,  /* *(reg + offset) + extra */
    MALLOW_CFA_PLT = 4,    /* reg + offset + ((pc & 15) >= extra ? 8 : 0) */
    /*
     * Go's runtime.asmcgocall: on the stack of the goroutine *(reg + offset), *(reg + extra) below its top; see
     * walk/goroutine.c
     */
    MALLOW_CFA_GOROUTINE = 5,
};

enum mallow_saved_kind {
    MALLOW_SAVED_SAME = 0,      /* the register keeps its value */
    MALLOW_SAVED_AT_CFA = 1,    /* *(CFA + offset) */
    MALLOW_SAVED_AT_RSP = 2,    /* *(rsp of this frame + offset) */
    MALLOW_SAVED_IS_CFA = 3,    /* CFA + offset itself */
    MALLOW_SAVED_UNDEFINED = 4, /* lost: a rule that needs it ends the walk */
    MALLOW_SAVED_AT_RBP = 5,    /* *(rbp of this frame + offset): functions that realign their stack */
};

/* Callee-saved registers of the System V x86-64 ABI, and the return address, as indexed in struct mallow_rule. */
enum mallow_saved {
    MALLOW_RBX,
    MALLOW_RBP,
    MALLOW_R12,
    MALLOW_R13,
    MALLOW_R14,
    MALLOW_R15,
    MALLOW_RA,
    MALLOW_SAVED_COUNT
};

/* Where the frame of an async function of Swift has its context, which leads to its caller (walk/context.h). */
enum mallow_context_kind {
    MALLOW_CONTEXT_NONE = 0,        /* of any other function */
    MALLOW_CONTEXT_AT_CFA = 1,      /* *(CFA - 8 * context_at) */
    MALLOW_CONTEXT_IN_REGISTER = 2, /* register context_at of enum mallow_saved */
};

/* cfa_reg: an index of enum mallow_saved, or this for rsp. */
#define MALLOW_CFA_RSP 7u

/* Where a call puts its return address, in bytes from the CFA. */
#define MALLOW_RETURN_SLOT (-8)

struct mallow_rule {
    uint8_t cfa_kind; /* enum mallow_cfa_kind */
    uint8_t cfa_reg;
    uint8_t signal_frame;             /* 1: the frame that this rule leads to was interrupted: its pc is exact */
    uint8_t kind[MALLOW_SAVED_COUNT]; /* enum mallow_saved_kind */
    uint8_t context_kind;             /* enum mallow_context_kind */
    uint8_t context_at;
    int32_t cfa_offset;
    int32_t cfa_extra;
    int32_t offset[MALLOW_SAVED_COUNT];
};
_Static_assert(sizeof(struct mallow_rule) == 48, "rule layout");

/* ---- for the walk, which knows a stack pointer and a frame pointer and not their names ---- */

/* A function that keeps a frame pointer, or is taken for one that does. */
#define RULE_FRAME_POINTER MALLOW_QUICK_OFFSET_BP_AND_RESTORE_BP(16u, 16u)
/* No table describes it. */
#define RULE_UNKNOWN MALLOW_QUICK_WHOLE_RULE(MALLOW_RULE_NONE)
/* What a frame pointer leads to: the caller's, and the return address. */
#define RULE_FRAME_BYTES 16u

/* Where a register was saved, by the stack pointer or the frame pointer of the frame. */
#define RULE_SAVED_AT_SP MALLOW_SAVED_AT_RSP
#define RULE_SAVED_AT_FP MALLOW_SAVED_AT_RBP

#define RULE_FP MALLOW_RBP
#define RULE_SP MALLOW_CFA_RSP

/* Of a rule in its quick form: */
static inline int rule_is_quick(uint32_t rule) {
    return (rule & MALLOW_QUICK_RULE) == 0;
}

static inline int rule_uses_fp(uint32_t rule) {
    return (rule & MALLOW_QUICK_BASE_RBP) != 0;
}

static inline uint64_t rule_cfa(uint32_t rule, uint64_t sp, uint64_t fp) {
    return (rule_uses_fp(rule) ? fp : sp) + 8 * (rule & MALLOW_QUICK_CFA_MASK);
}

static inline uint64_t rule_cfa_offset(uint32_t rule) {
    return 8 * (rule & MALLOW_QUICK_CFA_MASK);
}

/* How many words below the CFA the frame pointer was saved; 0: it is unchanged. */
static inline uint64_t rule_fp_saved(uint32_t rule) {
    return rule >> MALLOW_QUICK_RBP_SHIFT;
}

/* The word that holds the return address of a frame with this CFA. */
static inline uint64_t rule_return_slot(uint64_t cfa) {
    return cfa + (uint64_t)MALLOW_RETURN_SLOT;
}

/* The caller's frame pointer as the frame of an async function saves it: where Swift marks such frames, by bit 60. */
static inline uint64_t rule_unmarked_fp(const struct mallow_rule *rule, uint64_t saved) {
    return rule->context_kind != MALLOW_CONTEXT_NONE ? saved & ~(1ull << 60) : saved;
}

/* The rule at the first instruction of a function. */
#define RULE_AT_ENTRY MALLOW_QUICK_OFFSET_SP(8u)

/* Stubs of a procedure linkage table push a word in their middle. */
static inline uint64_t rule_plt_bytes(const struct mallow_rule *rule, uint64_t pc) {
    return (pc & 15) >= (uint64_t)rule->cfa_extra ? 8 : 0;
}

/* In an epilogue that a signal interrupted, the rule may name words that were popped already: they lie below rsp, and
 * still hold what they held (System V x86-64 ABI 3.2.2: a handler leaves 128 bytes there alone). */
#define RULE_RED_ZONE 128ull

/* A frame that no table describes, as a whole rule. */
static const struct mallow_rule rule_frame_pointer __attribute__((unused)) = {
    .cfa_kind = MALLOW_CFA_OFFSET,
    .cfa_reg = MALLOW_RBP,
    .cfa_offset = 16,
    .kind = {[MALLOW_RBX] = MALLOW_SAVED_UNDEFINED,
             [MALLOW_RBP] = MALLOW_SAVED_AT_CFA,
             [MALLOW_R12] = MALLOW_SAVED_UNDEFINED,
             [MALLOW_R13] = MALLOW_SAVED_UNDEFINED,
             [MALLOW_R14] = MALLOW_SAVED_UNDEFINED,
             [MALLOW_R15] = MALLOW_SAVED_UNDEFINED,
             [MALLOW_RA] = MALLOW_SAVED_AT_CFA},
    .offset = {[MALLOW_RBP] = -16, [MALLOW_RA] = MALLOW_RETURN_SLOT},
};

#endif

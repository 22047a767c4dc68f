/*
 * From registers to return addresses, by mapped tables. Knows no names and no debug format.
 *
 * Each thread remembers its last stack. A new walk goes on only until it meets a remembered state; if the return
 * addresses (and the few other stack words that the rules read) further out are unchanged, the rest is the same.
 *
 *      root                                                        innermost
 *   remembered: [ state 0 | state 1 | … | state shared-1 ] [ … states of returned calls … ]
 *   now:        [ ---------- the same, verified -------- ] [ state shared | … | state depth-1 ]
 */
#ifndef MALLOW_UNWIND_H
#define MALLOW_UNWIND_H

#include "rule.h"

#include <stdint.h>
#include <string.h>

/* A stack word. Precondition: it can be read. */
static inline uint64_t load_word(uint64_t address) {
    uint64_t value;
    memcpy(&value, (const void *)address, 8);
    return value;
}

enum state_flag {
    STATE_USES_FP = 1,     /* its own rule reads fp */
    STATE_NEEDS_FP = 2,    /* its rule, or one further out, reads the fp that it has */
    STATE_DEREF = 4,       /* its CFA was loaded from extra_slot */
    STATE_UNSURE_STEP = 8, /* its caller was found without a table */
    STATE_UNSURE = 16,     /* so was some frame further out, or frames are missing there */
};

/*
 * A frame: where it is. The return address to the next one out is in the return slot below that one's sp
 * (rule_return_slot); the few rules that say otherwise make a walk forget. Two words, so that comparing a whole stack
 * reads few cache lines.
 */
struct place {
    uint64_t sp;
    uint64_t pc; /* return address, or exact pc with MALLOW_EXACT_PC */
};

/* The rest of a frame. Two with equal places, equal needed fp and equal words in their slots have equal callers. */
struct state {
    uint64_t fp;
    uint64_t fp_slot;         /* where the caller's fp was loaded from; 0: it is the same */
    uint64_t hash;            /* of all pcs from the root to here */
    uint64_t flags : 8;       /* enum state_flag */
    uint64_t extra_slot : 56; /* with STATE_DEREF */
};

/* A stack word, other than a return address, that must be unchanged for states further out to be. */
struct check {
    uint64_t state; /* index of the state whose step loads it */
    uint64_t slot;
    uint64_t value;
};

struct unwinder {
    uint64_t low, high; /* what is known of the thread's own stack: memory from any sp within up to high can be read */
    uint64_t floor;     /* sp below this is on another stack */
    uint32_t limit;     /* most states kept */
    uint32_t depth;     /* states in `states` */
    uint32_t shared;    /* how many of them the last call found unchanged */
    uint32_t checks;    /* entries of `check`, in order of their state */
    uint32_t filled;    /* entries of `states` that are made; those of guessed frames are made by the next walk */
    uint32_t unloads;   /* modules_linker.unloads when `states` were walked */
    uint8_t cut;        /* of the stack that was walked last: frames are missing, or were found without a table */
    uint8_t forget;     /* the next walk must not rely on `states` */
    uint8_t stack_only; /* contexts are not followed: callers are those on the stack */
    struct place *places;       /* root first; limit entries */
    struct state *states;       /* by the same index */
    struct place *fresh_places; /* of the walk under way, innermost first; limit entries */
    struct state *fresh_states; /* by the same index */
    struct check *check;        /* 2 * limit entries */
};

/* Bytes of the three arrays for a limit. */
uint64_t unwind_bytes(uint32_t limit);
/* Lays the arrays out in memory, of unwind_bytes(limit), and finds where the calling thread's stack begins. 0: there
 * is no memory for what all unwinders share. */
int unwind_setup(struct unwinder *unwinder, void *memory, uint32_t limit);
/* Finds the calling thread's stack anew: the unwinder has another owner. */
void unwind_adopt(struct unwinder *unwinder);
/* True for an address in the thread's own stack: extends what is known of it, if need be. */
int unwind_owns(struct unwinder *unwinder, uint64_t address);

/*
 * Walks from a state: pc, sp and fp as they are in the function that called us, after its call. Leaves the stack in
 * places[0 .. depth); the first `shared` are as after the last call. depth is at least 1.
 */
void unwind(struct unwinder *unwinder, uint64_t pc, uint64_t sp, uint64_t fp);

/*
 * Whether a walk from this state would find the last one's stack, whole and unchanged. Then that is as if it was
 * walked.
 */
int unwind_same(struct unwinder *unwinder, uint64_t pc, uint64_t sp, uint64_t fp);

/* The rule, in the quick form where it has one, of a frame with this pc. One that no table describes is stepped as
 * if it kept a frame pointer, and that is its rule. */
uint32_t unwind_rule(uint64_t pc);

/* 0 where this frame is still the caller of the next one further in. */
static inline uint64_t pc_difference(const struct place *place) {
    return load_word(rule_return_slot(place->sp)) ^ place->pc;
}

/*
 * 0 where all of the frames 0 .. count-1 still stand, given that the innermost, count-1, does. Three loads a frame, and
 * no branches on what they find: before places[0] lie three that never change.
 */
static inline uint64_t any_changed(const struct unwinder *u, uint32_t count) {
    const struct place *place = u->places + count - 1;
    uint64_t difference = 0;
    while (place > u->places) {
        place -= 4;
        difference |=
            pc_difference(place) | pc_difference(place + 1) | pc_difference(place + 2) | pc_difference(place + 3);
    }
    for (uint32_t i = 0; i < u->checks && u->check[i].state < count; i++)
        difference |= load_word(u->check[i].slot) ^ u->check[i].value;
    return difference;
}

/* Empties the cache of rules: modules have changed. */
void unwind_flush(void);

/* unwind_full.c: the same walk with all callee-saved registers, beginning here; used where a rule needs one of them
 * other than fp. Fills fresh_places from the frame whose sp is `sp` on; returns their number. */
uint32_t unwind_full(struct unwinder *unwinder, uint64_t sp, uint8_t *cut);

/* context.c: the callers of an async function of Swift with this context, innermost first, each where it is resumed:
 * fills at most `most` places, and sets *cut where there are more. Returns their number; -1: this is no context of a
 * task. */
int64_t context_callers(uint64_t context, struct place *places, uint32_t most, uint8_t *cut);

/* goroutine.c: the CFA of runtime.asmcgocall, which called C code from this goroutine, so deep in its stack. Memory
 * up to *high can be read there. 0: that is no goroutine, or its stack cannot be read. */
uint64_t goroutine_cfa(uint64_t goroutine, uint64_t depth, uint64_t *high);

/* Makes [from, to) readable in the eyes of a walk on a stack that is not the thread's own: moves *high up page by page,
 * as far as needed. 0: some page of it cannot be read. */
int unwind_extend(uint64_t *high, uint64_t to);

#endif

/* Stack numbers: which stacks a ring has seen, by the hash of their return addresses. */
#ifndef MALLOW_NUMBERS_H
#define MALLOW_NUMBERS_H

#include "base/wire.h"
#include "walk/table.h"

#define NUMBER_NONE UINT32_MAX

/* Numbers given out before they begin anew. Bounds the memory to 80 MB. */
#define NUMBERS_MOST (1u << 21)

/* A stack that came after another, see stacks.h. All zero: none. */
struct guess {
    uint32_t number; /* its own */
    uint32_t other;  /* another one that came after the same stack, 0: none */
    uint32_t frames; /* the frames that are not those of the stack before */
    uint16_t keep;   /* how many are */
    uint16_t span;   /* what the others take, in words */
};

struct numbers {
    struct table table;  /* by hash: number + 1; used: the numbers given out */
    uint64_t *hash;      /* by number */
    struct guess *after; /* by number: what comes after it */
    uint32_t room;       /* of the two arrays */
    uint32_t last;       /* the one in use */
};

/* Forgets all numbers, and keeps the memory. 0: there was none, and is none. */
int numbers_reset(struct numbers *numbers);

/* Gives the next number to a stack that is not known. NUMBER_NONE: no memory, or all are given out. */
uint32_t numbers_add(struct numbers *numbers, uint64_t hash);

/* The number of a stack, or NUMBER_NONE. */
uint32_t numbers_find(const struct numbers *numbers, uint64_t hash);

#endif

/* Stack numbers: which stacks a ring has seen, by the hash of their return addresses. */
#ifndef MALLOW_NUMBERS_H
#define MALLOW_NUMBERS_H

#include "base/sys.h"
#include "base/wire.h"

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
    uint64_t *table;     /* (hash & ~(2^24 - 1)) | number, 0: empty; linear probing, at most half full */
    uint64_t *hash;      /* by number */
    struct guess *after; /* by number: what comes after it */
    uint32_t bits;       /* the table has 2^bits entries */
    uint32_t count;      /* numbers given out */
    uint32_t last;       /* the one in use */
};

/* Forgets all numbers. 0: no memory. */
int numbers_reset(struct numbers *numbers);

/* Gives the next number to a stack that is not known. NUMBER_NONE: no memory, or all are given out. */
uint32_t numbers_add(struct numbers *numbers, uint64_t hash);

/* The number of a stack, or NUMBER_NONE. */
uint32_t numbers_find(const struct numbers *numbers, uint64_t hash);

#endif

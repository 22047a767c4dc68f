/*
 * Stack numbers: which stacks a ring has seen, by the hash of their return addresses.
 *
 * Programs go from stack to stack in the same order again and again. So each stack remembers which one came after it
 * the last time: when the guess is right, nothing is searched, and its line was fetched while the program ran.
 */
#ifndef MALLOW_NUMBERS_H
#define MALLOW_NUMBERS_H

#include "sys.h"
#include "wire.h"

#define NUMBER_NONE UINT32_MAX

/* Numbers given out before they begin anew. Bounds the memory to 64 MB. */
#define NUMBERS_MOST (1u << 21)

struct known {
    uint64_t hash;
    uint32_t next; /* the number that came after this one */
    uint32_t unused;
};

struct numbers {
    uint64_t *table;     /* (hash & ~(2^24 - 1)) | number, 0: empty; linear probing, at most half full */
    struct known *known; /* by number; there is always room for one more than `count`, empty */
    uint32_t bits;       /* the table has 2^bits entries */
    uint32_t count;      /* numbers given out */
    uint32_t last;       /* the one in use */
};

/* Forgets all numbers. 0: no memory. */
int numbers_reset(struct numbers *numbers);

/* Gives the next number to a stack that is not known. NUMBER_NONE: no memory, or all are given out. */
uint32_t numbers_add(struct numbers *numbers, uint64_t hash);

/* numbers_find where the guess was wrong. */
uint32_t numbers_search(const struct numbers *numbers, uint64_t hash);

/* The number of a stack, or NUMBER_NONE. */
static inline uint32_t numbers_find(const struct numbers *numbers, uint64_t hash) {
    uint32_t guess = numbers->known[numbers->last].next;
    if (LIKELY(numbers->known[guess].hash == hash))
        return guess;
    return numbers_search(numbers, hash);
}

/* Takes a number into use: it is what came after the last one. */
static inline void numbers_use(struct numbers *numbers, uint32_t number) {
    if (numbers->known[numbers->last].next != number)
        numbers->known[numbers->last].next = number;
    numbers->last = number;
    __builtin_prefetch(&numbers->known[numbers->known[number].next]);
}

#endif

/*
 * Random distances from one picked byte to the next: exponential, in whole bytes, from a generator that each thread has
 * of its own. Integers alone: the target's floating-point flags and traps are its own business.
 */
#ifndef MALLOW_EXPONENTIAL_H
#define MALLOW_EXPONENTIAL_H

#include "base/sys.h"

/* A generator. state 0: not seeded yet. */
struct generator {
    uint64_t state;
};

/* Prepares the table of logarithms. Once, before the first draw; 200 ns. */
void exponential_setup(void);

/* A generator for the calling thread that shares nothing with those of other threads and processes. No system call. */
struct generator generator_seeded(void);
/* In a forked child, before anything is drawn there. */
void generator_forked(void);

/* The next 64 random bits. */
uint64_t generator_next(struct generator *generator);

/*
 * -ln(bits / 2^64) in units of 2^-56; bits 0 counts as 1. Its error is below 10^-9, and it never falls as bits falls.
 */
uint64_t exponential_from_bits(uint64_t bits);

/* From an exponent: the number of the first byte that is picked, from 1 on. P(draw > n) = exp(-n / period). */
static inline uint64_t exponential_distance(uint64_t exponent, uint32_t period) {
    return (uint64_t)((__uint128_t)exponent * period >> 56) + 1;
}

#endif

/* Exponential distances from random bits, by a table of logarithms.  */
#include "sample/exponential.h"

#include <string.h>
#include <sys/auxv.h>

/*
 * ln(1 + i / PARTS), in units of 2^-64; the last one is ln 2. bits = 2^-(k + 1) * (1 + i / PARTS) * (1 + d) with d
 * below 1 / PARTS, so its logarithm is that of three factors, and four terms of the series for ln(1 + d) are off by 2 *
 * 10^-10.
 */
#define PARTS_BITS 6
#define PARTS      (1u << PARTS_BITS)
static uint64_t logarithms[PARTS + 1];
static uint64_t inverses[PARTS]; /* 1 / (PARTS + i), in the same units: a division takes as long as all the rest */

#define HALF  (1ull << 63)
#define THIRD (UINT64_MAX / 3)

static uint64_t seed, threads;

/* SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators"): a counter, and a mixing of it
 * that is one to one. */
#define GOLDEN 0x9e3779b97f4a7c15ull

static uint64_t mix(uint64_t z) {
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

uint64_t generator_next(struct generator *generator) {
    return mix(generator->state += GOLDEN);
}

struct generator generator_seeded(void) {
    uint64_t number = __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
    uint64_t state = mix(mix(seed + number * GOLDEN) ^ seed);
    return (struct generator){state != 0 ? state : GOLDEN};
}

/* The high 64 bits of a product: both are fractions of 2^64. */
static inline uint64_t times(uint64_t a, uint64_t b) {
    return (uint64_t)((__uint128_t)a * b >> 64);
}

void exponential_setup(void) {
    /* ln((n + 1) / n) = 2 * (x + x^3 / 3 + x^5 / 5 + …) with x = 1 / (2 n + 1). */
    for (uint64_t n = PARTS; n < 2 * PARTS; n++) {
        inverses[n - PARTS] = UINT64_MAX / n;
        uint64_t odd = 2 * n + 1, power = UINT64_MAX / odd, sum = 0;
        for (uint64_t k = 1; power != 0; k += 2, power /= odd * odd)
            sum += power / k;
        logarithms[n - PARTS + 1] = logarithms[n - PARTS] + 2 * sum;
    }
    const void *random = (const void *)getauxval(AT_RANDOM);
    if (random != NULL)
        memcpy(&seed, random, sizeof seed);
    generator_forked();
}

void generator_forked(void) {
    seed = mix(seed ^ sys_now_ns()) + (uint64_t)sys_getpid() * GOLDEN;
}

uint64_t exponential_from_bits(uint64_t bits) {
    bits |= bits == 0;
    unsigned zeros = (unsigned)__builtin_clzll(bits);
    uint64_t mantissa = bits << zeros; /* 2^63 * (1 + i / PARTS) * (1 + d) */
    uint64_t part = mantissa >> (63 - PARTS_BITS) & (PARTS - 1);
    uint64_t rest = mantissa & ((1ull << (63 - PARTS_BITS)) - 1);
    uint64_t d = times(rest << (1 + PARTS_BITS), inverses[part]); /* in units of 2^-64 */
    uint64_t rise = d - times(times(d, d), HALF - times(d, THIRD - d / 4));
    uint64_t nearer = (logarithms[part] + rise) >> 8, whole = (zeros + 1) * (logarithms[PARTS] >> 8);
    return nearer < whole ? whole - nearer : 0;
}

/* The static probes of sampling, and what a sample stands for.  */
#include "sample/usdt.h"
#include "arch.h"

#include <errno.h>

PROBE_DEFINE(mallow, malloc);
PROBE_DEFINE(mallow, calloc);
PROBE_DEFINE(mallow, memalign);
PROBE_DEFINE(mallow, realloc);
PROBE_DEFINE(mallow, realloc_from_tracked);
PROBE_DEFINE(mallow, realloc_to_regular);
PROBE_DEFINE(mallow, free);
PROBE_DEFINE(mallow, calloc_overflow);
PROBE_DEFINE(mallow, mmap_failed);
PROBE_DEFINE(otel_memory, alloc);
PROBE_DEFINE(otel_memory, free);

/* The high 64 bits of a product: both are fractions of 2^64. */
static uint64_t times(uint64_t a, uint64_t b) {
    return (uint64_t)((__uint128_t)a * b >> 64);
}

COLD uint64_t weighted_bytes(uint64_t size, uint32_t period) {
    /* With x = size / period. What is added beyond 50 is less than a byte of 2^64. */
    if (size / period > 50)
        return size;
    uint64_t x = (uint64_t)(((__uint128_t)size << 58) / period); /* in units of 2^-58 */
    if (x >> 54 == 0) {
        /* Below 1/16: size / (1 - exp(-x)) = period * (1 + x / 2 + x^2 / 12 - x^4 / 720 + …) */
        uint64_t square = times(x << 6, x << 6), fourth = times(square, square);
        uint64_t rise = (x << 5) + square / 12 - fourth / 720;
        return period + (uint64_t)(((__uint128_t)rise * period + (1ull << 63)) >> 64);
    }
    /* exp(-x) by its series where x is small, and by squares up to there. */
    unsigned halvings = 0;
    for (; x >> 54 != 0; halvings++)
        x = (x + 1) / 2;
    uint64_t y = x << 6, e = UINT64_MAX - y / 8;
    for (unsigned term = 7; term >= 2; term--)
        e = UINT64_MAX - times(y / term, e);
    uint64_t rest = UINT64_MAX - times(y, e);
    while (halvings-- > 0)
        rest = times(rest, rest);
    uint64_t share = UINT64_MAX - rest;
    return (uint64_t)((((__uint128_t)size << 64) + share / 2) / share);
}

/* Not inlined: tools want a probe to be in one place. */
static NOINLINE void otel_alloc(const void *block, uint64_t size, uint32_t period) {
    if (PROBE_IS_ON(otel_memory, alloc))
        PROBE3(otel_memory, alloc, block, size, weighted_bytes(size, period));
}

static NOINLINE void otel_free(const void *block) {
    if (PROBE_IS_ON(otel_memory, free))
        PROBE1(otel_memory, free, block);
}

COLD void probe_allocation_heard(const struct mallow_slot *s, size_t count, size_t size, size_t alignment) {
    switch (s->family) {
    case MALLOW_FAMILY_CALLOC:
        if (PROBE_IS_ON(mallow, calloc))
            PROBE5(mallow, calloc, count, size, s->id, s->address, s->size);
        break;
    case MALLOW_FAMILY_MALLOC:
        if (PROBE_IS_ON(mallow, malloc))
            PROBE3(mallow, malloc, s->id, s->address, s->size);
        break;
    default:
        if (PROBE_IS_ON(mallow, memalign))
            PROBE4(mallow, memalign, s->id, s->address, s->size, alignment);
        break;
    }
    otel_alloc((const void *)s->address, s->size, s->period);
}

COLD void probe_free_heard(const struct mallow_slot *s) {
    if (PROBE_IS_ON(mallow, free))
        PROBE3(mallow, free, s->id, s->address, s->size);
    otel_free((const void *)s->address);
}

NOINLINE void probe_realloc(struct probe_block old, struct probe_block new, uint32_t period) {
    if (old.id == 0) {
        if (PROBE_IS_ON(mallow, realloc))
            PROBE5(mallow, realloc, old.block, old.size, new.id, new.block, new.size);
    } else if (new.id != 0) {
        if (PROBE_IS_ON(mallow, realloc_from_tracked))
            PROBE6(mallow, realloc_from_tracked, old.id, old.block, old.size, new.id, new.block, new.size);
    } else if (PROBE_IS_ON(mallow, realloc_to_regular)) {
        PROBE5(mallow, realloc_to_regular, old.id, old.block, old.size, new.block, new.size);
    }
    if (old.id != 0)
        otel_free(old.block);
    if (new.id != 0)
        otel_alloc(new.block, new.size, period);
}

COLD void probe_refused(size_t size, size_t alignment) {
    if (PROBE_IS_ON(mallow, mmap_failed))
        PROBE4(mallow, mmap_failed, size, alignment, (size + ARCH_PAGE - 1) & ~(ARCH_PAGE - 1), ENOMEM);
}

COLD void probe_overflow(size_t count, size_t size) {
    if (PROBE_IS_ON(mallow, calloc_overflow))
        PROBE2(mallow, calloc_overflow, count, size);
}

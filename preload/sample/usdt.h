/* The static probes of sampling: what happened, with libpoireau's names and arguments, and OpenTelemetry's. */
#ifndef MALLOW_USDT_H
#define MALLOW_USDT_H

#include "sample/slot_pool.h"
#include "sample/usdt_note.h"

/* A block that was in a slot, or is the underlying allocator's (id 0). */
struct probe_block {
    uint64_t id;
    const void *block;
    uint64_t size;
};

PROBE_DECLARE(mallow, malloc);
PROBE_DECLARE(mallow, calloc);
PROBE_DECLARE(mallow, memalign);
PROBE_DECLARE(mallow, free);
PROBE_DECLARE(otel_memory, alloc);
PROBE_DECLARE(otel_memory, free);

/* Each fires what it says, where somebody listens. Called before another thread can be given the address, so that the
 * order of events is the order of things. */
void probe_allocation_heard(const struct mallow_slot *sample, size_t count, size_t size, size_t alignment);
static inline void probe_allocation(const struct mallow_slot *sample, size_t count, size_t size, size_t alignment) {
    if (PROBE_IS_ON(mallow, malloc) || PROBE_IS_ON(otel_memory, alloc) || PROBE_IS_ON(mallow, calloc) ||
        PROBE_IS_ON(mallow, memalign))
        probe_allocation_heard(sample, count, size, alignment);
}
void probe_free_heard(const struct mallow_slot *sample);
static inline void probe_free(const struct mallow_slot *sample) {
    if (PROBE_IS_ON(mallow, free) || PROBE_IS_ON(otel_memory, free))
        probe_free_heard(sample);
}
/* old id 0: it was not sampled; new id 0: it is not. */
void probe_realloc(struct probe_block old, struct probe_block new, uint32_t period);
void probe_refused(size_t size, size_t alignment);
void probe_overflow(size_t count, size_t size);

/* What a sample stands for: size / (1 - exp(-size / period)), rounded. */
uint64_t weighted_bytes(uint64_t size, uint32_t period);

#endif

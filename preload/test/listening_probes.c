/* In the place of sample/usdt.c, in a library for tests: somebody listens at all probes, and what they say is kept. */
#include "sample/usdt.h"

#define EXPORT __attribute__((visibility("default")))

volatile unsigned short mallow_malloc_semaphore = 1, mallow_calloc_semaphore = 1, mallow_memalign_semaphore = 1,
                        mallow_free_semaphore = 1, otel_memory_alloc_semaphore, otel_memory_free_semaphore;

EXPORT uint64_t heard_count, heard_size, heard_bytes;

void probe_allocation_heard(const struct mallow_slot *sample, size_t count, size_t size, size_t alignment) {
    (void)alignment;
    heard_count = count;
    heard_size = size;
    heard_bytes = sample->size;
}

void probe_free_heard(const struct mallow_slot *sample) {
    (void)sample;
}

void probe_realloc(struct probe_block old, struct probe_block new, uint32_t period) {
    (void)old;
    (void)new;
    (void)period;
}

void probe_refused(size_t size, size_t alignment) {
    (void)size;
    (void)alignment;
}

void probe_overflow(size_t count, size_t size) {
    (void)count;
    (void)size;
}

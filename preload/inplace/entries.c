/*
 * Sampling in place: the policy of a process that mallow attached to. A sampled block stays the allocator's own, so
 * that its free may come from anywhere, also when mallow has gone. The allocator is asked first; what was picked is
 * then remembered by its address, until a free or realloc of that address.
 */
#include "arch.h"
#include "base/real.h"
#include "inplace/inplace.h"
#include "inplace/inplace_slots.h"
#include "sample/countdown.h"
#include "sample/lifecycle.h"

static const struct probe_block no_block;

/* ---- a sample's beginning and end ---- */

/* A block that the allocator returned becomes a sample, if there is room for it. `count`: of calloc. */
static void begin(void *block, const struct request *request, struct probe_block old, size_t count,
                  struct caller caller) {
    struct sample_thread *s = sample_thread_begin(caller);
    if (UNLIKELY(s == NULL)) {
        sample_missed();
        return;
    }
    sample_thread_walk(s, &s->begins, caller);
    uint64_t now = sys_tick_ns();
    struct slot *slot = NULL;
    if (LIKELY(sample_lock(s))) {
        inplace_slots_settle();
        slot = sample_log != NULL ? inplace_slot_take(block) : NULL;
        if (LIKELY(slot != NULL)) {
            log_sample_begin(slot, request, block, now, s, old, count);
        }
        sample_unlock(s);
    }
    sample_thread_end(s);
    if (UNLIKELY(slot == NULL))
        sample_refused(request->size, request->alignment);
}

static NOINLINE void *begun(void *block, size_t size, size_t alignment, uint32_t period, uint32_t family,
                            struct caller caller) {
    struct request request = {size, size, alignment, period, (enum mallow_family)family};
    if (LIKELY(block != NULL))
        begin(block, &request, no_block, 0, caller);
    return block;
}

/* In a signal handler that interrupted our work, or where no sample_thread can be had. */
COLD static void end_later(struct slot *slot, uint32_t kind) {
    struct sample_thread *s = (struct sample_thread *)((uintptr_t)own_sample_thread & image_alive);
    inplace_slot_defer(slot, kind);
    if (s != NULL) {
        s->pending[0] = NULL;
        s->guard.pendings = 1;
    } else if (sample_lock(NULL)) {
        inplace_slots_settle();
        sample_unlock(NULL);
    }
}

/* The sample of a slot that was removed from the table ends. */
static NOINLINE void end(struct slot *slot, uint32_t kind, const void *moved_to, struct caller caller) {
    struct sample_thread *s = sample_thread_begin(caller);
    if (UNLIKELY(s == NULL)) {
        end_later(slot, kind);
        return;
    }
    sample_thread_walk(s, &s->ends, caller);
    uint64_t now = sys_tick_ns();
    if (LIKELY(sample_lock(s))) {
        inplace_slots_settle();
        inplace_slot_end(slot, now, s->tid, sample_stack(s), kind, moved_to);
        sample_unlock(s);
    } else {
        inplace_slot_defer(slot, kind);
    }
    sample_thread_end(s);
}

/* realloc failed: the block is as it was. */
COLD static void restore(struct slot *slot) {
    int done = 0;
    if (sample_lock(NULL)) {
        done = inplace_slot_restore(slot);
        sample_unlock(NULL);
    }
    if (!done) {
        sample_missed();
        inplace_slot_defer(slot, MALLOW_END_FREED);
    }
}

/* After the realloc of a block whose slot was removed, or of none. */
static void reallocated(struct slot *slot, struct probe_block old, void *block, const struct request *request,
                        struct caller caller) {
    if (block == NULL && request->size != 0) {
        if (slot != NULL)
            restore(slot);
        return;
    }
    if (slot != NULL)
        end(slot, block != NULL ? MALLOW_END_REALLOCATED : MALLOW_END_FREED, block, caller);
    if (block != NULL && request->period != 0)
        begin(block, request, old, 0, caller);
    else if (block != NULL && slot != NULL)
        probe_realloc(old, (struct probe_block){0, block, request->size}, 0);
}

/* `usable`: of the allocator, where the block is still its own; NULL: it is not, or that is not known. */
static struct probe_block probed(const struct slot *slot, void *old, size_t (*usable)(void *block)) {
    if (slot != NULL)
        return (struct probe_block){slot->seen.id, old, slot->seen.size};
    return (struct probe_block){0, old, old != NULL && usable != NULL ? usable(old) : 0};
}

/* ---- entry functions ---- */

static void *inplace_malloc(size_t size) {
    uint32_t period = should_sample(size);
    void *block = real.malloc(size);
    return LIKELY(period == 0) ? block : begun(block, size, 0, period, MALLOW_FAMILY_MALLOC, CALLER);
}

/* Of a thread that has no countdown yet, and of operator new: the underlying allocator was asked first. */
static void *inplace_malloc_done(void *block, size_t size) {
    uint32_t period = sample_pick(size);
    return LIKELY(period == 0) ? block : begun(block, size, 0, period, MALLOW_FAMILY_MALLOC, CALLER);
}

static void *calloc_begun(void *block, size_t count, size_t size, uint32_t period, struct caller caller) {
    struct request request = {count * size, count * size, 0, period, MALLOW_FAMILY_CALLOC};
    if (period != 0 && block != NULL)
        begin(block, &request, no_block, count, caller);
    return block;
}

static void *inplace_calloc_done(void *block, size_t count, size_t size) {
    return calloc_begun(block, count, size, sample_pick(count * size), CALLER);
}

static void *inplace_calloc(size_t count, size_t size) {
    size_t bytes;
    if (UNLIKELY(__builtin_mul_overflow(count, size, &bytes))) {
        probe_overflow(count, size);
        return real.calloc(count, size);
    }
    uint32_t period = sample_pick(bytes);
    void *block = real.calloc(count, size);
    return LIKELY(period == 0) ? block : calloc_begun(block, count, size, period, CALLER);
}

/* Its sample ends before the allocator may give the block to another thread. */
static NOINLINE void free_sampled(void *block, struct slot *slot, struct caller caller) {
    end(slot, MALLOW_END_FREED, NULL, caller);
    real.free(block);
}

static void inplace_free(void *block) {
    struct slot *slot = inplace_slot_remove(block);
    if (UNLIKELY(slot != NULL))
        free_sampled(block, slot, CALLER);
    else
        real.free(block);
}

static inline void *inplace_realloc_as(enum mallow_family family, void *old, size_t size, struct caller caller) {
    struct slot *slot = old != NULL ? inplace_slot_remove(old) : NULL;
    uint32_t period = size == 0 && old != NULL ? 0 : sample_pick(size);
    if (LIKELY(slot == NULL && period == 0))
        return real.realloc(old, size);
    struct probe_block was = probed(slot, old, real.malloc_usable_size);
    struct request request = {size, size, 0, period, family};
    void *block = real.realloc(old, size);
    reallocated(slot, was, block, &request, caller);
    return block;
}

static void *inplace_realloc(void *old, size_t size) {
    return inplace_realloc_as(MALLOW_FAMILY_REALLOC, old, size, CALLER);
}

static void *inplace_reallocarray(void *old, size_t count, size_t size) {
    return inplace_realloc_as(MALLOW_FAMILY_REALLOCARRAY, old, count * size, CALLER);
}

#define ALIGNED(name, alignment, parameters, arguments)                                                                \
    static void *inplace_##name parameters {                                                                           \
        uint32_t period = sample_pick(size);                                                                           \
        void *block = real.name arguments;                                                                             \
        return LIKELY(period == 0) ? block : begun(block, size, alignment, period, MALLOW_FAMILY_OF_##name, CALLER);   \
    }
ALIGNED(aligned_alloc, alignment, (size_t alignment, size_t size), (alignment, size))
ALIGNED(memalign, alignment, (size_t alignment, size_t size), (alignment, size))
ALIGNED(valloc, ARCH_PAGE, (size_t size), (size))
ALIGNED(pvalloc, ARCH_PAGE, (size_t size), (size))

static int inplace_posix_memalign(void **result, size_t alignment, size_t size) {
    uint32_t period = sample_pick(size);
    int error = real.posix_memalign(result, alignment, size);
    if (UNLIKELY(period != 0) && error == 0)
        begun(*result, size, alignment, period, MALLOW_FAMILY_POSIX_MEMALIGN, CALLER);
    return error;
}

/* ---- patched functions of other allocators ---- */

static void hooked_allocated(const struct hooked_call *call) {
    uint32_t period = sample_pick(call->size);
    if (UNLIKELY(period != 0))
        begun(call->block, call->size, 0, period, call->family, caller_of(call->frame));
}

static void hooked_freed(const struct hooked_call *call) {
    struct slot *slot = inplace_slot_remove(call->old);
    if (UNLIKELY(slot != NULL))
        end(slot, MALLOW_END_FREED, NULL, caller_of(call->frame));
}

/* Its slot, for hooked_reallocated: index + 1. */
static void hooked_reallocating(struct hooked_call *call) {
    call->old_bytes = slot_table_remove(call->old);
}

static void hooked_reallocated(const struct hooked_call *call) {
    struct slot *slot = call->old_bytes != 0 ? slot_at((uint32_t)call->old_bytes - 1) : NULL;
    uint32_t period = call->block != NULL && call->size != 0 ? sample_pick(call->size) : 0;
    struct request request = {call->size, call->size, 0, period, (enum mallow_family)call->family};
    if (UNLIKELY(slot != NULL || period != 0))
        reallocated(slot, probed(slot, call->old, NULL), call->block, &request, caller_of(call->frame));
}

static const struct hooked_policy hooked = {.allocated = hooked_allocated,
                                            .freed = hooked_freed,
                                            .reallocating = hooked_reallocating,
                                            .reallocated = hooked_reallocated};

/* Its hooks are sample_policy's. */
static const struct policy inplace_policy = {
    .malloc_done = inplace_malloc_done,
    .calloc_done = inplace_calloc_done,
    .malloc_due = inplace_malloc,
    .calloc_due = inplace_calloc,
    .free = inplace_free,
#define X(name, result, parameters, arguments) .name = inplace_##name,
    MALLOW_OTHER(X)
#undef X
        .hooked = &hooked,
};

const struct inplace_sampling inplace_sampling = {
    .policy = &inplace_policy, .make = inplace_slots_make, .settle = inplace_slots_settle, .left = inplace_slots_left};

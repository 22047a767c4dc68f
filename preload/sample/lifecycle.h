/*
 * A sample's beginning and end, inlined into the entry functions: calls between small functions were a tenth of a
 * sample's instructions. One that cannot be served, for want of a slot or because it comes in the middle of our own
 * work, is counted and goes to the underlying allocator: whether an allocation is sampled does not depend on it.
 */
#ifndef MALLOW_LIFECYCLE_H
#define MALLOW_LIFECYCLE_H

#include "base/real.h"
#include "sample/sample_log.h"
#include "sample/sample_thread.h"
#include "sample/slot.h"
#include "sample/usdt.h"

/* What is to be allocated, and why. */
struct request {
    size_t size;  /* as requested */
    size_t bytes; /* that the block must have */
    size_t alignment;
    uint32_t period;
    enum mallow_family family;
};

/* Without the lock: gives back the memory of slots, of one that slot_put did not take or of those that nobody has
 * needed for long. */
void sample_discard_slot(struct slot *slot, struct sample_thread *s);
COLD void sample_discard_idle(struct slot *list, struct sample_thread *s);
/* No slot was to be had; or this comes in the middle of our own work. NULL. */
COLD void *sample_refused(size_t size, size_t alignment);
COLD void *sample_missed(void);
COLD uint32_t sample_stack_new(struct stack_memory *stack_memory);
/* A free of what is no live sample, though it lies among the slots. */
COLD void sample_free_other(void *block);
/* Ends the samples whose frees were deferred (sample_defer). */
COLD void sample_end_deferred(void);
/* Ends a sample in a handler that interrupted our work, or where no sample_thread is available. */
COLD void sample_end_pending(void *block, uint32_t kind, const void *moved_to);

static inline ALWAYS_INLINE struct mallow_slot sample_entry(const struct request *request, const void *block,
                                                            uint64_t now_ns, uint32_t stack, uint32_t tid) {
    return (struct mallow_slot){
        .address = (uint64_t)block,
        .size = request->size,
        .began_ns = now_ns,
        .period = request->period,
        .tid = tid,
        .stack = stack,
        .family = (uint8_t)request->family,
    };
}

/* The number of the stack that was walked last. */
static inline uint32_t sample_stack(const struct sample_thread *s) {
    struct stack_memory *stack_memory = s->walked;
    return LIKELY(stack_memory != NULL && stack_memory->stack != 0 && stack_memory->generation == modules_generation)
               ? stack_memory->stack
               : sample_stack_new(stack_memory);
}

/* The sample of a block is logged, and its probe fires. `old`: of realloc, `count`: of calloc. The lock is held. */
static inline ALWAYS_INLINE void log_sample_begin(struct slot *slot, const struct request *request, const void *block,
                                                  uint64_t now, struct sample_thread *s, struct probe_block old,
                                                  size_t count) {
    log_begin(slot, sample_entry(request, block, now, sample_stack(s), s->tid));
    if (request->family == MALLOW_FAMILY_REALLOC || request->family == MALLOW_FAMILY_REALLOCARRAY)
        probe_realloc(old, (struct probe_block){slot->seen.id, block, request->size}, request->period);
    else
        probe_allocation(&slot->seen, count, count != 0 ? request->size / count : 0, request->alignment);
}

/* A block in a slot, as a sample. NULL: the underlying allocator is to serve it. */
static inline ALWAYS_INLINE void *sample_begin_inline(const struct request *request, size_t *stale,
                                                      struct probe_block old, size_t count, struct caller caller) {
    struct sample_thread *s = sample_thread_begin(caller);
    if (UNLIKELY(s == NULL))
        return sample_missed();
    sample_thread_walk(s, &s->begins, caller);
    uint64_t now = sys_tick_ns();
    void *block = NULL;
    if (LIKELY(sample_lock(s))) {
        struct slot *slot = sample_log != NULL ? slot_take(request->bytes, request->alignment) : NULL;
        if (UNLIKELY(slot != NULL && !log_has_room(slot))) {
            slot_put_discarded(slot);
            slot = NULL;
        }
        if (LIKELY(slot != NULL)) {
            block = slot_fill(slot, request->bytes, request->alignment, stale);
            log_sample_begin(slot, request, block, now, s, old, count);
        }
        sample_unlock(s);
    }
    sample_thread_end(s);
    return LIKELY(block != NULL) ? block : sample_refused(request->size, request->alignment);
}

/* The live sample of a block; NULL: it is none. */
static inline ALWAYS_INLINE struct slot *live_slot(const void *block) {
    struct slot *slot = slot_of(block);
    return slot != NULL && slot->usable != 0 && slot->seen.address == (uint64_t)block ? slot : NULL;
}

/* s: has walked the stack. NULL: the end has none. Returns 0 where there is no such sample. */
static inline ALWAYS_INLINE int sample_end_inline(void *block, uint32_t kind, const void *moved_to,
                                                  struct sample_thread *s) {
    struct slot *unclean = NULL, *unused = NULL;
    uint64_t now = sys_tick_ns();
    if (!sample_lock(s)) {
        if (live_slot(block) != NULL)
            sample_defer(block);
        return 1;
    }
    struct slot *slot = live_slot(block);
    if (LIKELY(slot != NULL)) {
        if (kind == MALLOW_END_FREED)
            probe_free(&slot->seen);
        log_end(slot, now,
                s != NULL                           ? s->tid
                : filter_is(FILTER_FORBIDS_SAMPLES) ? 0
                                                    : thread_id(),
                s != NULL ? sample_stack(s) : 0, kind, moved_to);
        unclean = slot_put(slot) ? slot : NULL;
        unused = slots_idle(now);
    }
    sample_unlock(s);
    if (UNLIKELY(unclean != NULL))
        sample_discard_slot(unclean, s);
    if (UNLIKELY(unused != NULL))
        sample_discard_idle(unused, s);
    if (UNLIKELY(__atomic_load_n(&sample_deferred, __ATOMIC_RELAXED) != 0))
        sample_end_deferred();
    return slot != NULL;
}

static inline ALWAYS_INLINE void sample_release(void *block, uint32_t kind, const void *moved_to,
                                                struct caller caller) {
    struct sample_thread *s = sample_thread_begin(caller);
    if (UNLIKELY(s == NULL)) {
        sample_end_pending(block, kind, moved_to);
        return;
    }
    sample_thread_walk(s, &s->ends, caller);
    int ended = sample_end_inline(block, kind, moved_to, s);
    sample_thread_end(s);
    if (UNLIKELY(!ended))
        sample_free_other(block);
}

/*
 * The entry functions that take an alignment, of a policy with slots: `begin` serves a request, or returns NULL, and
 * `pick` is sample_pick or its like. An alignment that is none is the business of the underlying allocator. (Samples in
 * place ask that first.)
 */
#define SAMPLE_ALIGNED(policy, begin, pick)                                                                            \
    static inline void *policy##_aligned(size_t alignment, size_t size, size_t bytes, enum mallow_family family,       \
                                         struct caller caller) {                                                       \
        struct request request = {size, bytes, alignment, 0, family};                                                  \
        size_t stale;                                                                                                  \
        if (alignment == 0 || (alignment & (alignment - 1)) != 0 || (request.period = pick(size)) == 0)                \
            return NULL;                                                                                               \
        return begin(&request, &stale, (struct probe_block){0}, 0, caller);                                            \
    }                                                                                                                  \
    SAMPLE_ALIGNED_ENTRY(policy, aligned_alloc, alignment, size, (size_t alignment, size_t size), (alignment, size))   \
    SAMPLE_ALIGNED_ENTRY(policy, memalign, alignment, size, (size_t alignment, size_t size), (alignment, size))        \
    SAMPLE_ALIGNED_ENTRY(policy, valloc, ARCH_PAGE, size, (size_t size), (size))                                       \
    SAMPLE_ALIGNED_ENTRY(policy, pvalloc, SAMPLE_IN_PAGES >= size ? ARCH_PAGE : 0, SAMPLE_IN_PAGES, (size_t size),     \
                         (size))                                                                                       \
    static int policy##_posix_memalign(void **result, size_t alignment, size_t size) {                                 \
        int is_one = alignment % sizeof(void *) == 0;                                                                  \
        void *block = is_one ? policy##_aligned(alignment, size, size, MALLOW_FAMILY_POSIX_MEMALIGN, CALLER) : NULL;   \
        if (block == NULL)                                                                                             \
            return real.posix_memalign(result, alignment, size);                                                       \
        *result = block;                                                                                               \
        return 0;                                                                                                      \
    }
#define SAMPLE_ALIGNED_ENTRY(policy, name, alignment, bytes, parameters, arguments)                                    \
    static void *policy##_##name parameters {                                                                          \
        void *block = policy##_aligned(alignment, size, bytes, MALLOW_FAMILY_OF_##name, CALLER);                       \
        return block != NULL ? block : real.name arguments;                                                            \
    }
#define SAMPLE_IN_PAGES ((size + ARCH_PAGE - 1) & ~(ARCH_PAGE - 1))

#endif

/*
 * Sampling: what becomes of the allocations that are picked (countdown.h). One that cannot be served, for want of a slot or
 * because it comes in the middle of our own work, is counted and goes to the allocator beneath: whether an allocation is
 * picked does not depend on it.
 */
#include "sample/sample.h"
#include "arch.h"
#include "base/real.h"
#include "sample/countdown.h"
#include "sample/image_end.h"
#include "sample/sample_log.h"
#include "sample/sample_thread.h"
#include "sample/slot.h"
#include "sample/usdt.h"
#include "walk/modules.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What is to be allocated, and why. */
struct request {
    size_t size;  /* as requested */
    size_t bytes; /* that the block must have */
    size_t alignment;
    uint32_t period;
    enum mallow_family family;
};

static void clean_and_put(struct slot *slot, struct sample_thread *s) {
    slot_clean(slot);
    if (sample_lock(s)) {
        slot_put_clean(slot);
        sample_unlock(s);
    }
}

/* Without the lock: gives back memory that nobody has needed for long. */
COLD static void cool_down(struct slot *list, struct sample_thread *s) {
    while (list != NULL) {
        struct slot *next = slot_next(list);
        clean_and_put(list, s);
        list = next;
    }
}

static inline ALWAYS_INLINE struct mallow_slot sample_of(const struct request *request, const void *block,
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

COLD static void *refused(size_t size, size_t alignment) {
    if (sample_log != NULL && size < 1ull << 47)
        __atomic_fetch_add(&sample_log->without_slot, 1, __ATOMIC_RELAXED);
    probe_refused(size, alignment);
    return NULL;
}

COLD static void *count_missed(void) {
    if (sample_log != NULL)
        __atomic_fetch_add(&sample_log->missed, 1, __ATOMIC_RELAXED);
    return NULL;
}

COLD static uint32_t stack_new(struct stack_memory *stack_memory) {
    if (stack_memory == NULL || filter_is(FILTER_FORBIDS_SAMPLES))
        return 0;
    stack_memory->generation = modules_generation;
    return stack_memory->stack = log_stack(&stack_memory->unwinder, stack_memory->generation);
}

/* The number of the stack that was walked last. */
static inline uint32_t stack_of(const struct sample_thread *s) {
    struct stack_memory *stack_memory = s->walked;
    return LIKELY(stack_memory != NULL && stack_memory->stack != 0 && stack_memory->generation == modules_generation)
               ? stack_memory->stack
               : stack_new(stack_memory);
}

/* A block in a slot, recorded but for its probe, which `begin` fires with the lock held. NULL: the allocator beneath is to
 * serve it. */
static inline ALWAYS_INLINE void *begin_inline(const struct request *request, size_t *stale, struct probe_block old,
                                               size_t count, struct caller caller) {
    struct sample_thread *s = sample_thread_begin(caller);
    if (UNLIKELY(s == NULL))
        return count_missed();
    sample_thread_walk(s, &s->begins, caller);
    uint64_t now = sys_tick_ns();
    void *block = NULL;
    if (LIKELY(sample_lock(s))) {
        struct slot *slot = sample_log != NULL ? slot_take(request->bytes, request->alignment) : NULL;
        if (UNLIKELY(slot != NULL && !log_has_room(slot))) {
            slot_put_clean(slot);
            slot = NULL;
        }
        if (LIKELY(slot != NULL)) {
            block = slot_fill(slot, request->bytes, request->alignment, stale);
            log_begin(slot, sample_of(request, block, now, stack_of(s), s->tid));
            if (request->family == MALLOW_FAMILY_REALLOC || request->family == MALLOW_FAMILY_REALLOCARRAY)
                probe_realloc(old, (struct probe_block){slot->seen.id, block, request->size}, request->period);
            else
                probe_allocation(&slot->seen, count, count != 0 ? request->size / count : 0, request->alignment);
        }
        sample_unlock(s);
    }
    sample_thread_end(s);
    return LIKELY(block != NULL) ? block : refused(request->size, request->alignment);
}

NOINLINE static void *begin(const struct request *request, size_t *stale, struct probe_block old, size_t count,
                            struct caller caller) {
    return begin_inline(request, stale, old, count, caller);
}

static const struct probe_block no_block;

static inline void *begin_malloc(size_t size, uint32_t period, struct caller caller) {
    struct request request = {size, size, 0, period, MALLOW_FAMILY_MALLOC};
    size_t stale;
    return begin_inline(&request, &stale, no_block, 0, caller);
}

static void *begin_calloc(size_t count, size_t size, uint32_t period, struct caller caller) {
    struct request request = {count * size, count * size, 0, period, MALLOW_FAMILY_CALLOC};
    size_t stale;
    void *block = begin(&request, &stale, no_block, count, caller);
    if (block != NULL)
        memset(block, 0, stale < request.size ? stale : request.size);
    return block;
}

/* The live sample of a block; NULL: it is none. */
static inline ALWAYS_INLINE struct slot *live_slot(const void *block) {
    struct slot *slot = slot_of(block);
    return slot != NULL && slot->usable != 0 && slot->seen.address == (uint64_t)block ? slot : NULL;
}

/*
 * A free of what is no live sample, though it lies among the slots. A second free ends as glibc ends it. Where a slot was
 * unmapped behind our back, other memory may lie there now, and glibc knows it.
 */
COLD static void free_other(void *block) {
    static const char text[] = "free(): double free detected in tcache 2\n";
    const struct slot *slot = slot_of(block);
    if (slot == NULL || slot->seen.address != (uint64_t)block) {
        real.free(block);
        return;
    }
    sys_write(2, text, sizeof text - 1);
    abort();
}

COLD static void end_asides(void) {
    for (void *block = sample_take_aside(), *next; block != NULL; block = next) {
        memcpy(&next, block, sizeof next);
        if (!sample_end(block, MALLOW_END_FREED, NULL, NULL))
            break; /* freed twice: the list may lead back to itself */
    }
}

/* s: has walked the stack. NULL: the end has none. Returns 0 where there is no such sample. */
static inline ALWAYS_INLINE int end_inline(void *block, uint32_t kind, const void *moved_to, struct sample_thread *s) {
    struct slot *unclean = NULL, *unused = NULL;
    uint64_t now = sys_tick_ns();
    if (!sample_lock(s)) {
        if (live_slot(block) != NULL)
            sample_put_aside(block);
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
                s != NULL ? stack_of(s) : 0, kind, moved_to);
        unclean = slot_put(slot) ? slot : NULL;
        unused = slots_cold(now);
    }
    sample_unlock(s);
    if (UNLIKELY(unclean != NULL))
        clean_and_put(unclean, s);
    if (UNLIKELY(unused != NULL))
        cool_down(unused, s);
    if (UNLIKELY(__atomic_load_n(&sample_asides, __ATOMIC_RELAXED) != 0))
        end_asides();
    return slot != NULL;
}

int sample_end(void *block, uint32_t kind, const void *moved_to, struct sample_thread *s) {
    return end_inline(block, kind, moved_to, s);
}

COLD void sample_thread_flush(struct sample_thread *s) {
    while (s->guard.pendings > 0)
        sample_end(s->pending[--s->guard.pendings], MALLOW_END_FREED, NULL, NULL);
}

/* In a handler that interrupted our work, or where no sample_thread can be had. */
COLD static void end_aside(void *block, uint32_t kind, const void *moved_to) {
    struct sample_thread *s = (struct sample_thread *)((uintptr_t)own_sample_thread & image_alive);
    if (s == NULL)
        sample_end(block, kind, moved_to, NULL);
    else if (s->guard.pendings < PENDING_MOST)
        s->pending[s->guard.pendings++] = block;
    else
        count_missed();
}

static inline ALWAYS_INLINE void end(void *block, uint32_t kind, const void *moved_to, struct caller caller) {
    struct sample_thread *s = sample_thread_begin(caller);
    if (UNLIKELY(s == NULL)) {
        end_aside(block, kind, moved_to);
        return;
    }
    sample_thread_walk(s, &s->ends, caller);
    int ended = end_inline(block, kind, moved_to, s);
    sample_thread_end(s);
    if (UNLIKELY(!ended))
        free_other(block);
}

/* ---- the functions ---- */

static void *sample_malloc(size_t size) {
    uint32_t period = should_sample(size);
    void *block = period != 0 ? begin_malloc(size, period, CALLER) : NULL;
    return block != NULL ? block : real.malloc(size);
}

/* Of a thread that has no countdown yet: the allocator beneath was asked first. */
COLD static void *sample_malloc_done(void *block, size_t size) {
    uint32_t period = allowance_covers(size) ? 0 : should_sample(size);
    struct request request = {size, size, 0, period, MALLOW_FAMILY_MALLOC};
    size_t stale;
    void *sampled = period != 0 ? begin(&request, &stale, no_block, 0, CALLER) : NULL;
    if (sampled == NULL)
        return block;
    real.free(block);
    return sampled;
}

static void *sample_calloc(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        probe_overflow(count, size);
        return real.calloc(count, size);
    }
    uint32_t period = allowance_covers(bytes) ? 0 : should_sample(bytes);
    void *block = period != 0 ? begin_calloc(count, size, period, CALLER) : NULL;
    return block != NULL ? block : real.calloc(count, size);
}

COLD static void *sample_calloc_done(void *block, size_t count, size_t size) {
    uint32_t period = allowance_covers(count * size) ? 0 : should_sample(count * size);
    void *sampled = period != 0 ? begin_calloc(count, size, period, CALLER) : NULL;
    if (sampled == NULL)
        return block;
    real.free(block);
    return sampled;
}

static void sample_free(void *block) {
    end(block, MALLOW_END_FREED, NULL, CALLER);
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* A block of the allocator beneath, or none, becomes a sample. NULL: it does not. */
static void *realloc_picked(void *old, size_t size, uint32_t period, enum mallow_family family, struct caller caller) {
    size_t had = 0;
    if (old != NULL) {
        if (real.malloc_usable_size == NULL)
            return count_missed();
        had = real.malloc_usable_size(old);
    }
    struct request request = {size, size, 0, period, family};
    size_t stale;
    void *block = begin(&request, &stale, (struct probe_block){0, old, had}, 0, caller);
    if (block != NULL && old != NULL) {
        memcpy(block, old, smaller(had, size));
        real.free(old);
    }
    return block;
}

/* The sample stays where it is: it ends, and another one begins in the same slot. 0: it cannot. */
static int realloc_in_place(void *block, size_t size, uint32_t period, enum mallow_family family,
                            struct caller caller) {
    struct sample_thread *s = sample_thread_begin(caller);
    int done = 0;
    if (s == NULL)
        return 0;
    sample_thread_walk(s, &s->ends, caller);
    uint64_t now = sys_tick_ns();
    if (sample_lock(s)) {
        struct slot *slot = live_slot(block);
        if (slot != NULL && slot_fits(slot, size) && log_has_room(slot)) {
            struct probe_block old = {slot->seen.id, block, slot->seen.size};
            struct request request = {size, size, 0, period, family};
            uint32_t stack = stack_of(s);
            log_end(slot, now, s->tid, stack, MALLOW_END_REALLOCATED, block);
            slot_resize(slot, size);
            log_begin(slot, sample_of(&request, block, now, stack, s->tid));
            probe_realloc(old, (struct probe_block){slot->seen.id, block, size}, period);
            done = 1;
        }
        sample_unlock(s);
    }
    sample_thread_end(s);
    return done;
}

/*
 * To no bytes. Whether that frees the block or gives another one is the allocator's to say: glibc's frees it. Another one is
 * asked with a block of its own.
 */
COLD static void *realloc_to_zero(void *old, struct probe_block was, struct caller caller) {
    void *block = NULL;
    if (real_sizes != REAL_SIZES_IN_HEADS) {
        if ((block = real.malloc(1)) == NULL)
            return NULL;
        block = real.realloc(block, 0);
    }
    if (block != NULL)
        probe_realloc(was, (struct probe_block){0, block, 0}, 0);
    end(old, block != NULL ? MALLOW_END_REALLOCATED : MALLOW_END_FREED, block, caller);
    return block;
}

/* Out of its slot, into another one or to the allocator beneath. */
static void *realloc_sampled(void *old, size_t size, enum mallow_family family, struct caller caller) {
    const struct slot *slot = live_slot(old);
    if (slot == NULL)
        return real.realloc(old, size); /* see free_other */
    struct probe_block was = {slot->seen.id, old, slot->seen.size};
    if (size == 0)
        return realloc_to_zero(old, was, caller);
    size_t keep = smaller(slot->usable, size), stale;
    uint32_t period = allowance_covers(size) ? 0 : should_sample(size);
    void *block = NULL;
    if (period != 0) {
        if (realloc_in_place(old, size, period, family, caller))
            return old;
        struct request request = {size, size, 0, period, family};
        block = begin(&request, &stale, was, 0, caller);
    }
    if (block == NULL) {
        if ((block = real.malloc(size)) == NULL)
            return NULL;
        probe_realloc(was, (struct probe_block){0, block, size}, 0);
    }
    memcpy(block, old, keep);
    end(old, MALLOW_END_REALLOCATED, block, caller);
    return block;
}

static inline void *sample_realloc_as(enum mallow_family family, void *old, size_t size, struct caller caller) {
    if (UNLIKELY(is_owned(old)))
        return realloc_sampled(old, size, family, caller);
    if (LIKELY(allowance_covers(size) || (size == 0 && old != NULL)))
        return real.realloc(old, size);
    uint32_t period = should_sample(size);
    void *block = period != 0 ? realloc_picked(old, size, period, family, caller) : NULL;
    return block != NULL ? block : real.realloc(old, size);
}

static void *sample_realloc(void *old, size_t size) {
    return sample_realloc_as(MALLOW_FAMILY_REALLOC, old, size, CALLER);
}

/* See count_reallocarray. */
static void *sample_reallocarray(void *old, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return sample_realloc_as(MALLOW_FAMILY_REALLOCARRAY, old, bytes, CALLER);
}

/* NULL: the allocator beneath is to serve it. An alignment that is none is its business too. */
static inline void *aligned(size_t alignment, size_t size, size_t bytes, enum mallow_family family,
                            struct caller caller) {
    if (LIKELY(allowance_covers(size)) || alignment == 0 || (alignment & (alignment - 1)) != 0)
        return NULL;
    struct request request = {size, bytes, alignment, should_sample(size), family};
    size_t stale;
    return request.period != 0 ? begin(&request, &stale, no_block, 0, caller) : NULL;
}

static void *sample_aligned_alloc(size_t alignment, size_t size) {
    void *block = aligned(alignment, size, size, MALLOW_FAMILY_ALIGNED_ALLOC, CALLER);
    return block != NULL ? block : real.aligned_alloc(alignment, size);
}

static void *sample_memalign(size_t alignment, size_t size) {
    void *block = aligned(alignment, size, size, MALLOW_FAMILY_MEMALIGN, CALLER);
    return block != NULL ? block : real.memalign(alignment, size);
}

static int sample_posix_memalign(void **result, size_t alignment, size_t size) {
    void *block = NULL;
    if (alignment % sizeof(void *) == 0)
        block = aligned(alignment, size, size, MALLOW_FAMILY_POSIX_MEMALIGN, CALLER);
    if (block == NULL)
        return real.posix_memalign(result, alignment, size);
    *result = block;
    return 0;
}

static void *sample_valloc(size_t size) {
    void *block = aligned(ARCH_PAGE, size, size, MALLOW_FAMILY_VALLOC, CALLER);
    return block != NULL ? block : real.valloc(size);
}

static void *sample_pvalloc(size_t size) {
    size_t bytes = (size + ARCH_PAGE - 1) & ~(ARCH_PAGE - 1);
    void *block = bytes >= size ? aligned(ARCH_PAGE, size, bytes, MALLOW_FAMILY_PVALLOC, CALLER) : NULL;
    return block != NULL ? block : real.pvalloc(size);
}

static size_t sample_usable_size(const void *block) {
    const struct slot *slot = live_slot(block);
    return slot != NULL ? slot->usable : real.malloc_usable_size((void *)block);
}

/* ---- the policy ---- */

static const struct policy *sample_setup(void) {
    modules_setup();
    exponential_setup();
    modules_wait = 0;
    return &sample_policy;
}

/* The dynamic linker keeps its list locked while it is read. A child that is made meanwhile, by another thread, has that lock
 * for good: so it is read now, when there are none yet, and not at a first sample. */
static void sample_loaded(void) {
    modules_learn();
    image_end_watch();
}

/* Threads have no blocks: one is laid out, and never used. */
static void sample_layout(struct file_layout *layout) {
    *layout = file_layout(1, layout->most);
    struct mallow_sampling sampling;
    layout->bytes = log_layout(&sampling, layout);
}

static void sample_file_opened(void) {
    /* A child has its parent's modules, which nothing in it finds anew. */
    modules_announce_all();
    log_open();
}

static void sample_filtered(void) {
    sample_over(MALLOW_OVER_FILTER);
}

static void sample_forked(void) {
    modules_forked();
    sample_forked_child();
    if (!filter_is(FILTER_SEEN)) /* it calls the kernel; else nothing is drawn any more */
        generator_forked();
    countdown = (struct countdown){0};
    allowance = 0;
}

const struct policy sample_policy = {
    .malloc_done = sample_malloc_done,
    .calloc_done = sample_calloc_done,
#define X(name, result, parameters, arguments) .name = sample_##name,
    MALLOW_OTHER(X)
#undef X
        .malloc_due = sample_malloc,
    .calloc_due = sample_calloc,
    .free_owned = sample_free,
    .usable_size_owned = sample_usable_size,
    .reads_later = 1,
    .setup = sample_setup,
    .loaded = sample_loaded,
    .over = sample_over,
    .filtered = sample_filtered,
    .exit_at_once = image_end_now,
    .fork_begins = sample_fork_begins,
    .fork_ended = lock_samples_fork_ended,
    .forked = sample_forked,
    .file_layout = sample_layout,
    .file_mapped = log_map,
    .file_opened = sample_file_opened,
    .thread_end = sample_thread_leave,
};

/* The entry functions of sampling, and its policy. What becomes of a sample is in lifecycle.h. */
#include "arch.h"
#include "base/attachment.h"
#include "base/real.h"
#include "sample/countdown.h"
#include "sample/foreign.h"
#include "sample/image_end.h"
#include "sample/lifecycle.h"
#include "sample/sample.h"
#include "walk/modules.h"

#include <stdlib.h>
#include <string.h>

static const struct probe_block no_block;

NOINLINE static void *begin(const struct request *request, size_t *stale, struct probe_block old, size_t count,
                            struct caller caller) {
    return sample_begin_inline(request, stale, old, count, caller);
}

static inline void *begin_malloc(size_t size, uint32_t period, struct caller caller) {
    struct request request = {size, size, 0, period, MALLOW_FAMILY_MALLOC};
    size_t stale;
    return sample_begin_inline(&request, &stale, no_block, 0, caller);
}

static void *begin_calloc(size_t count, size_t size, uint32_t period, struct caller caller) {
    struct request request = {count * size, count * size, 0, period, MALLOW_FAMILY_CALLOC};
    size_t stale;
    void *block = begin(&request, &stale, no_block, count, caller);
    if (block != NULL)
        memset(block, 0, stale < request.size ? stale : request.size);
    return block;
}

static void *sample_malloc(size_t size) {
    uint32_t period = should_sample(size);
    void *block = period != 0 ? begin_malloc(size, period, CALLER) : NULL;
    return block != NULL ? block : real.malloc(size);
}

/* Of a thread that has no countdown yet: the underlying allocator was asked first. */
COLD static void *sample_malloc_done(void *block, size_t size) {
    struct request request = {size, size, 0, sample_pick(size), MALLOW_FAMILY_MALLOC};
    size_t stale;
    void *sampled = request.period != 0 ? begin(&request, &stale, no_block, 0, CALLER) : NULL;
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
    uint32_t period = sample_pick(bytes);
    void *block = period != 0 ? begin_calloc(count, size, period, CALLER) : NULL;
    return block != NULL ? block : real.calloc(count, size);
}

COLD static void *sample_calloc_done(void *block, size_t count, size_t size) {
    uint32_t period = sample_pick(count * size);
    void *sampled = period != 0 ? begin_calloc(count, size, period, CALLER) : NULL;
    if (sampled == NULL)
        return block;
    real.free(block);
    return sampled;
}

static void sample_free(void *block) {
    sample_release(block, MALLOW_END_FREED, NULL, CALLER);
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* A block of the underlying allocator, or none, becomes a sample. NULL: it does not. */
static void *realloc_picked(void *old, size_t size, uint32_t period, enum mallow_family family, struct caller caller) {
    size_t had = 0;
    if (old != NULL) {
        if (real.malloc_usable_size == NULL)
            return sample_missed();
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
            uint32_t stack = sample_stack(s);
            log_end(slot, now, s->tid, stack, MALLOW_END_REALLOCATED, block);
            slot_resize(slot, size);
            log_begin(slot, sample_entry(&request, block, now, stack, s->tid));
            probe_realloc(old, (struct probe_block){slot->seen.id, block, size}, period);
            done = 1;
        }
        sample_unlock(s);
    }
    sample_thread_end(s);
    return done;
}

/*
 * To no bytes. Whether that frees the block or gives another one is the allocator's to say: glibc's frees it. Another
 * one is asked with a block of its own.
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
    sample_release(old, block != NULL ? MALLOW_END_REALLOCATED : MALLOW_END_FREED, block, caller);
    return block;
}

/* Out of its slot, into another one or to the underlying allocator. */
static void *realloc_sampled(void *old, size_t size, enum mallow_family family, struct caller caller) {
    const struct slot *slot = live_slot(old);
    if (slot == NULL)
        return real.realloc(old, size); /* see free_other */
    struct probe_block was = {slot->seen.id, old, slot->seen.size};
    if (size == 0)
        return realloc_to_zero(old, was, caller);
    size_t keep = smaller(slot->usable, size), stale;
    uint32_t period = sample_pick(size);
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
    sample_release(old, MALLOW_END_REALLOCATED, block, caller);
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

static void *sample_reallocarray(void *old, size_t count, size_t size) {
    return sample_realloc_as(MALLOW_FAMILY_REALLOCARRAY, old, count * size, CALLER);
}

SAMPLE_ALIGNED(sample, begin, sample_pick)

static size_t sample_usable_size(const void *block) {
    const struct slot *slot = live_slot(block);
    return slot != NULL ? slot->usable : real.malloc_usable_size((void *)block);
}

/* ---- the policy ---- */

static const struct policy *sample_setup(void) {
    modules_setup();
    exponential_setup();
    modules_wait = 0;
    if (inplace != NULL && attachment_is_late())
        return inplace->policy;
    foreign_functions_find();
    return guarding_is_wanted() ? guarding->policy() : &sample_policy;
}

/* The dynamic linker keeps its list locked while it is read. A child that is made meanwhile, by another thread, has
 * that lock for good: so it is read now, when there are none yet, and not at a first sample. */
static void sample_loaded(void) {
    modules_learn();
    image_end_watch();
    /* Its file says that mallow is attached, also before its first allocation. Under guarding the first free of what
     * is no block may come before an allocation, and so may a crash. */
    if (attachment_is_late() || (guarding_is_wanted() && guarding->is_due()))
        sample_image_open();
}

/* Of a process that mallow attached to. */
static void sample_left(void) {
    modules_fetch(unwind_flush);
    modules_wait = 1;
    modules_linker_freed(); /* nobody sees what is unloaded until the next attachment */
    log_left();
    if (inplace != NULL)
        inplace->left();
    sample_threads_left();
    lock_samples_left();
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
    .left = sample_left,
    .fork_begins = sample_fork_begins,
    .fork_ended = lock_samples_fork_ended,
    .forked = sample_forked,
    .file_layout = sample_layout,
    .file_mapped = log_map,
    .file_opened = sample_file_opened,
    .thread_end = sample_thread_leave,
};

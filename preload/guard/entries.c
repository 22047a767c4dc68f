/*
 * The entry functions of guarding. Of a block that was to be guarded and could not be, the sampler's slots take a
 * sample, and the underlying allocator takes what is no sample: an allocation never fails because of this.
 */
#include "arch.h"
#include "base/real.h"
#include "guard/foreign.h"
#include "guard/guard_slots.h"
#include "guard/guarding.h"
#include "guard/operators.h"
#include "guard/report.h"
#include "sample/countdown.h"
#include "sample/lifecycle.h"

#include <string.h>

static const struct probe_block no_block;
static uint64_t live_pages;
static int silent; /* a wait was in vain: nobody waits until a slot was ready again */

static inline int guards_every(void) {
    return (target.control->flags & MALLOW_GUARD_EVERY) != 0;
}

/* The period that an allocation is picked with; 0: it is not. */
static inline uint32_t pick(size_t size) {
    if (guards_every())
        return is_sampling(target.control) ? 1 : 0;
    return sample_pick(size);
}

static void count(uint64_t *counter) {
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/* ---- a guarded block's beginning and end ---- */

/*
 * With the lock held, which it gives back while it waits: *locked is 0 where it could not be had again. NULL: there is
 * no slot.
 */
static struct slot *take(uint32_t pages, struct sample_thread *s, int *locked) {
    uint64_t until_ns = 0;
    if (guard_protects && !guard_handle())
        return NULL;
    while (live_pages + pages <= target.control->guard_pages) {
        struct mallow_supply *ring;
        uint32_t seen;
        struct slot *slot = guard_take(pages, &ring, &seen);
        if (slot != NULL)
            silent = 0;
        if (slot != NULL || ring == NULL || silent || !guards_every())
            return slot;
        sample_unlock(s);
        until_ns = until_ns != 0 ? until_ns : sys_tick_ns() + GUARD_LONGEST_NS;
        int waited = guard_wait(&ring->done, seen, until_ns);
        /* Without the lock nothing may be touched. */
        if ((*locked = sample_lock(s)) == 0)
            break;
        silent = !waited;
    }
    return NULL;
}

/* NULL: the block is not guarded. `operation`: MALLOW_OPERATION_UNKNOWN of the functions of malloc's family. */
static void *begin_guarded(const struct request *request, struct probe_block old, size_t elements,
                           enum mallow_operation operation, struct caller caller) {
    uint32_t pages = guard_pages(request->bytes);
    if (UNLIKELY(guard_is_due()))
        sample_image_open();
    if (!guard_is_joined())
        return NULL;
    if (pages == 0 || request->alignment > ARCH_PAGE) {
        count(&guard_shared->unfit);
        return NULL;
    }
    struct sample_thread *s = sample_thread_begin(caller);
    if (UNLIKELY(s == NULL))
        return sample_missed();
    sample_thread_walk(s, &s->begins, caller);
    void *block = NULL;
    int locked = sample_lock(s);
    if (LIKELY(locked)) {
        struct slot *slot = sample_log != NULL && guard_is_joined() ? take(pages, s, &locked) : NULL;
        if (slot != NULL) {
            block = guard_fill(slot, request->bytes, request->alignment);
            guard_allocated(slot, operation != 0 ? operation : mismatch_operation(caller_pc(caller)),
                            request->alignment);
            live_pages += pages;
            log_sample_begin(slot, request, block, sys_tick_ns(), s, old, elements);
        }
        if (locked)
            sample_unlock(s);
    }
    sample_thread_end(s);
    count(block != NULL ? &guard_shared->guarded : &guard_shared->unguarded);
    return block;
}

/* NULL: the underlying allocator is to serve it. `stale`: as of sample_begin_inline. */
static NOINLINE void *begin_as(const struct request *request, size_t *stale, struct probe_block old, size_t elements,
                               enum mallow_operation operation, struct caller caller) {
    *stale = 0;
    void *block = begin_guarded(request, old, elements, operation, caller);
    /* The pool's largest slots are where guarded ones lie. */
    if (block != NULL || guards_every() || request->bytes >= 1ull << (slot_region_bits - 2) || request->size == 0)
        return block;
    return sample_begin_inline(request, stale, old, elements, caller);
}

static inline void *begin(const struct request *request, size_t *stale, struct probe_block old, size_t elements,
                          struct caller caller) {
    return begin_as(request, stale, old, elements, MALLOW_OPERATION_UNKNOWN, caller);
}

/* What was freed is no live guarded block. */
COLD static void report_free(const void *block, struct slot *slot, struct sample_thread *s) {
    int again = slot != NULL && slot->used != 1 && slot->seen.address == (uint64_t)block;
    enum mallow_guard_error of_slot = again ? MALLOW_ERROR_DOUBLE_FREE : MALLOW_ERROR_INTERIOR;
    guard_report(slot != NULL ? of_slot : MALLOW_ERROR_FOREIGN, block, slot, s->tid, sample_stack(s));
}

static struct slot *live(const void *block) {
    struct slot *slot = guard_slot_of(block);
    return slot != NULL && slot->used == 1 && slot->seen.address == (uint64_t)block ? slot : NULL;
}

/* The block is given back: its memory is missing from here on. One that a handler frees which interrupted our own
 * work stays live, and is counted. */
static NOINLINE void release(void *block, uint32_t kind, const void *moved_to, struct freeing how,
                             struct caller caller) {
    struct sample_thread *s = sample_thread_begin(caller);
    if (UNLIKELY(s == NULL)) {
        sample_missed();
        return;
    }
    sample_thread_walk(s, &s->ends, caller);
    struct slot *slot = NULL;
    int reported = 0;
    if (LIKELY(sample_lock(s))) {
        slot = live(block);
        if (LIKELY(slot != NULL)) {
            const uint8_t *damage = guard_damage(slot);
            struct guard_more *more = guard_more(slot);
            if (UNLIKELY(damage != NULL)) {
                guard_report(MALLOW_ERROR_SLACK, damage, slot, s->tid, sample_stack(s));
                reported = 1;
            }
            if (kind == MALLOW_END_FREED)
                probe_free(&slot->seen);
            if (UNLIKELY(mismatch_is(slot, how, caller_pc(caller)))) {
                report_mismatch(slot, how, s->tid, sample_stack(s));
                reported = 1;
            }
            uint64_t now = guard_now_ns();
            uint32_t stack = sample_stack(s);
            log_end(slot, now, s->tid, stack, kind, moved_to);
            more->freed_ns = now;
            more->free_tid = s->tid;
            more->free_stack = stack;
            guard_freed(slot);
            slot->used = slot->usable = 0;
            live_pages -= more->pages;
        } else if (sample_log != NULL) {
            report_free(block, guard_slot_of(block), s);
            reported = 1;
        }
        sample_unlock(s);
    }
    if (LIKELY(slot != NULL)) {
        guard_discard(slot);
        if (sample_lock(s)) {
            guard_put(slot);
            sample_unlock(s);
        }
    }
    sample_thread_end(s);
    if (UNLIKELY(reported))
        guard_reported();
}

/* ---- entry functions ---- */

/* Where the thread's allowance was looked at, and does not cover it: pick would take it off once more. */
static void *guard_malloc(size_t size) {
    struct request request = {size, size, 0, should_sample(size), MALLOW_FAMILY_MALLOC};
    size_t stale;
    void *block = request.period != 0 ? begin(&request, &stale, no_block, 0, CALLER) : NULL;
    return block != NULL ? block : real.malloc(size);
}

/* The underlying allocator was asked first. */
static void *guard_malloc_done(void *block, size_t size) {
    struct request request = {size, size, 0, pick(size), MALLOW_FAMILY_MALLOC};
    size_t stale;
    void *guarded = request.period != 0 ? begin(&request, &stale, no_block, 0, CALLER) : NULL;
    if (guarded == NULL)
        return block;
    real.free(block);
    return guarded;
}

/* Only a block in a slot of the sampler's may hold something else than zeros. */
static void *begin_calloc(size_t elements, size_t size, uint32_t period, struct caller caller) {
    struct request request = {elements * size, elements * size, 0, period, MALLOW_FAMILY_CALLOC};
    size_t stale;
    void *block = period != 0 ? begin(&request, &stale, no_block, elements, caller) : NULL;
    if (block != NULL && stale != 0)
        memset(block, 0, stale < request.size ? stale : request.size);
    return block;
}

static void *guard_calloc(size_t elements, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(elements, size, &bytes))
        return real.calloc(elements, size);
    void *block = begin_calloc(elements, size, pick(bytes), CALLER);
    return block != NULL ? block : real.calloc(elements, size);
}

static void *guard_calloc_done(void *block, size_t elements, size_t size) {
    void *guarded = begin_calloc(elements, size, pick(elements * size), CALLER);
    if (guarded == NULL)
        return block;
    real.free(block);
    return guarded;
}

static const struct freeing by_free = {.kind = MALLOW_FREEING_FREE};
static const struct freeing by_realloc = {.kind = MALLOW_FREEING_REALLOC};

static void guard_free_owned(void *block) {
    if (LIKELY(guard_owns(block)))
        release(block, MALLOW_END_FREED, NULL, by_free, CALLER);
    else
        sample_policy.free_owned(block);
}

COLD static int report_foreign(void *block, struct caller caller) {
    struct sample_thread *s = sample_thread_begin(caller);
    if (s == NULL)
        return 0;
    sample_thread_walk(s, &s->ends, caller);
    if (sample_lock(s)) {
        guard_report(MALLOW_ERROR_FOREIGN, block, NULL, s->tid, sample_stack(s));
        sample_unlock(s);
    }
    sample_thread_end(s);
    guard_reported();
    return 1;
}

static void guard_free(void *block) {
    if (UNLIKELY(foreign_is(block)) && report_foreign(block, CALLER))
        return;
    real.free(block);
}

static inline void *guard_realloc_as(enum mallow_family family, void *old, size_t size, struct caller caller) {
    struct slot *slot = guard_owns(old) ? live(old) : NULL;
    struct request request = {size, size, 0, pick(size), family};
    size_t stale, had = 0;
    if (guard_owns(old) && slot == NULL) { /* said, and then as a malloc */
        release(old, MALLOW_END_FREED, NULL, by_realloc, caller);
        old = NULL;
    } else if (old != NULL && slot == NULL && guards_every() && foreign_is(old) && report_foreign(old, caller)) {
        old = NULL;
    }
    if (slot != NULL)
        had = slot->usable;
    else if (old != NULL)
        had = real.malloc_usable_size != NULL ? real.malloc_usable_size(old) : 0;
    if (slot != NULL && size == 0) { /* as glibc has it */
        release(old, MALLOW_END_FREED, NULL, by_realloc, caller);
        return NULL;
    }
    struct probe_block was = {slot != NULL ? slot->seen.id : 0, old, had};
    int may_move = slot != NULL || old == NULL || (size != 0 && real.malloc_usable_size != NULL);
    void *block = may_move && request.period != 0 ? begin(&request, &stale, was, 0, caller) : NULL;
    if (block == NULL && slot == NULL)
        return real.realloc(old, size);
    if (block == NULL && (block = real.malloc(size)) == NULL)
        return NULL;
    if (old != NULL)
        memcpy(block, old, had < size ? had : size);
    if (slot != NULL)
        release(old, MALLOW_END_REALLOCATED, block, by_realloc, caller);
    else if (old != NULL)
        real.free(old);
    return block;
}

static void *guard_realloc(void *old, size_t size) {
    if (UNLIKELY(is_owned(old)) && !guard_owns(old))
        return sample_policy.realloc(old, size);
    return guard_realloc_as(MALLOW_FAMILY_REALLOC, old, size, CALLER);
}

static void *guard_reallocarray(void *old, size_t elements, size_t size) {
    if (UNLIKELY(is_owned(old)) && !guard_owns(old))
        return sample_policy.reallocarray(old, elements, size);
    return guard_realloc_as(MALLOW_FAMILY_REALLOCARRAY, old, elements * size, CALLER);
}

SAMPLE_ALIGNED(guard, begin, pick)

static size_t guard_usable_size(const void *block) {
    if (!guard_owns(block))
        return sample_policy.usable_size_owned(block);
    const struct slot *slot = live(block);
    return slot != NULL ? slot->usable : 0;
}

/* clang-format off */
#define X(name, result, parameters, arguments) .name = guard_##name,
#define ENTRIES                                                                                                        \
    .malloc_done = guard_malloc_done, .calloc_done = guard_calloc_done, .malloc_due = guard_malloc,                    \
    .calloc_due = guard_calloc, .free_owned = guard_free_owned, .usable_size_owned = guard_usable_size,                \
    .reads_later = 1, MALLOW_OTHER(X)
/* clang-format on */

static const struct policy every_policy = {.free = guard_free, ENTRIES};
/* A block that is no sample goes to the underlying allocator without a look: that look, at each free, costs more than
 * all else that guarding adds. */
static const struct policy samples_policy = {ENTRIES};

static const struct policy *guard_policy(void) {
    return guards_every() ? &every_policy : &samples_policy;
}

/* ---- operators ---- */

void *guard_operator_new(size_t size, size_t alignment, enum mallow_operation operation, struct caller caller) {
    size_t bytes = size + (size == 0), stale;
    enum mallow_family family = alignment != 0 ? MALLOW_FAMILY_ALIGNED_ALLOC : MALLOW_FAMILY_MALLOC;
    struct request request = {bytes, bytes, alignment, pick(bytes), family};
    void *block = request.period != 0 ? begin_as(&request, &stale, no_block, 0, operation, caller) : NULL;
    if (block != NULL)
        return block;
    size_t rounded = alignment != 0 ? (bytes + alignment - 1) & ~(alignment - 1) : bytes;
    if (rounded < bytes)
        return NULL;
    return alignment != 0 ? real.aligned_alloc(alignment, rounded) : real.malloc(bytes);
}

void guard_operator_delete(void *block, struct freeing how, struct caller caller) {
    if (LIKELY(guard_owns(block)))
        release(block, MALLOW_END_FREED, NULL, how, caller);
    else if (is_owned(block))
        sample_release(block, MALLOW_END_FREED, NULL, caller);
    else if (block != NULL && !(policy.free == guard_free && foreign_is(block) && report_foreign(block, caller)))
        real.free(block);
}

const struct guarding guarding_room = {
    .policy = guard_policy, .layout = guard_layout, .is_due = guard_is_due, .join = guard_join};

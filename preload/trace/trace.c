/* Tracing: each allocation and free becomes a record in its thread's ring, with the whole stack of allocations. */
#include "trace/trace.h"
#include "arch.h"
#include "trace/tracer.h"
#include "walk/modules.h"

/* An allocation: after the allocator returned, before the caller sees the address. guess: see stacks_guess. */
static inline void *allocation(void *block, size_t size, uint64_t op, struct caller caller, int guess, int64_t change) {
    uint64_t word = ring_word(op & 0xff, op >> 8, (uint64_t)block);
    struct tracer *t = event_begin(caller, word, size, change);
    if (t == NULL)
        return block;
    struct stacks *stacks = &t->stacks;
    int guessed = guess && stacks_guess(stacks, caller_pc(caller), caller.sp, caller.fp);
    if (!guessed)
        stacks_walk(stacks, caller_pc(caller), caller.sp, caller.fp);
    if (guessed || tracer_stack(t))
        tracer_allocation(t, word, size);
    event_end(t);
    return block;
}

NOINLINE static void *allocated(void *block, size_t size, uint64_t op, struct caller caller) {
    return allocation(block, size, op, caller, 1, order_bytes(block));
}

NOINLINE static void *allocated_elsewhere(void *block, size_t size, uint64_t op, struct caller caller) {
    return allocation(block, size, op, caller, 0, order_bytes(block));
}

NOINLINE static void write_allocation(void *block, size_t size, uint64_t op, struct caller caller, int64_t change) {
    allocation(block, size, op, caller, 1, change);
}

/* A record of one word: before the allocator is called. */
static inline void one_word(uint64_t word, struct caller caller, int64_t change) {
    struct tracer *t = event_begin(caller, word, 0, change);
    if (t == NULL)
        return;
    ring_write(&t->ring, word); /* where it cannot, it has counted that */
    event_end(t);
}

/* Not inlined: the frame is its own. */
COLD void trace_region(uint32_t number, int end, int this_thread) {
    uint64_t flags = this_thread ? MALLOW_FLAG_THIS_THREAD : 0;
    one_word(ring_word(MALLOW_OP_REGION, flags, (uint64_t)number << 1 | (end != 0)), CALLER, 0);
}

NOINLINE static void freed(void *block, struct caller caller) {
    if (modules_is_linker(caller_pc(caller)))
        modules_linker_freed();
    one_word(ring_word(MALLOW_OP_FREE, 0, (uint64_t)block), caller, -order_bytes(block));
    real.free(block);
}

/*
 * The same where nothing but the record has to be written, as it mostly is. What is unusual is left to the above: so
 * these call nothing but to end with it, and the compiler need not save registers. Over an allocator whose blocks have
 * no heads they call malloc_usable_size, where threads share the process.
 */

enum { BY_HEAD, BY_CALL };

ALWAYS_INLINE static inline int64_t quick_bytes(void *block, int how) {
    return how == BY_HEAD ? order_bytes_in_head(block) : order_bytes(block);
}

/* What came of an event: only where it is WRITTEN nothing is left to do. */
enum outcome {
    PENDING, /* written; records of signal handlers are to be written */
    WRITTEN,
    UNUSUAL,  /* not written */
    ELSEWHERE /* not written: another stack than that of the last event, or a size that needs a word of its own */
};

/* Begins such an event, with a record of at most two words. NULL: it is none. */
static inline struct tracer *quick_begin(struct caller caller, int64_t change) {
    struct tracer *t = thread_tracer();
    if (UNLIKELY(t == NULL || t->guard.inside != 0))
        return NULL;
    guard_enter(&t->guard, caller.sp);
    if (LIKELY(__atomic_load_n(&target.control->epoch, __ATOMIC_RELAXED) == t->epoch &&
               t->ring.head + 2 <= __atomic_load_n(&t->order.quick_limit, __ATOMIC_RELAXED) &&
               (uint64_t)(t->order.balance + change - t->order.floor) <= t->order.width)) /* it needs no stamp */
        return t;
    t->guard.inside = 0;
    return NULL;
}

static inline enum outcome quick_end(struct tracer *t, uint64_t words, int64_t change) {
    t->order.balance += change;
    ring_publish(&t->ring, words);
    return guard_leave(&t->guard) ? WRITTEN : PENDING;
}

ALWAYS_INLINE static inline enum outcome quick_allocation(void *block, size_t size, uint64_t op, struct caller caller,
                                                          int64_t change) {
    struct tracer *t = quick_begin(caller, change);
    if (UNLIKELY(t == NULL))
        return UNUSUAL;
    if (UNLIKELY(size >> MALLOW_SIZE_BITS != 0 || !stacks_guess(&t->stacks, caller_pc(caller), caller.sp, caller.fp))) {
        t->guard.inside = 0;
        return ELSEWHERE;
    }
    uint64_t words = tracer_write(t, ring_next(&t->ring), ring_word(op, 0, (uint64_t)block), size);
    return quick_end(t, words, change);
}

ALWAYS_INLINE static inline enum outcome quick_freed(void *block, struct caller caller, int64_t change) {
    struct tracer *t = quick_begin(caller, change);
    if (UNLIKELY(t == NULL))
        return UNUSUAL;
    *ring_next(&t->ring) = ring_word(MALLOW_OP_FREE, 0, (uint64_t)block);
    return quick_end(t, 1, change);
}

NOINLINE static void write_pending(void) {
    event_end(own_tracer);
}

NOINLINE static void *pending_block(void *block) {
    write_pending();
    return block;
}

NOINLINE static void pending_free(void *block) {
    write_pending();
    real.free(block);
}

ALWAYS_INLINE static inline void *quick_allocated(void *block, size_t size, uint64_t op, struct caller caller,
                                                  int how) {
    enum outcome outcome = quick_allocation(block, size, op, caller, quick_bytes(block, how));
    if (LIKELY(outcome == WRITTEN))
        return block;
    if (outcome == PENDING)
        return pending_block(block);
    return (outcome == UNUSUAL ? allocated : allocated_elsewhere)(block, size, op, caller);
}

ALWAYS_INLINE static inline void quick_free(void *block, struct caller caller, int how) {
    enum outcome outcome = UNUSUAL;
    if (LIKELY(!modules_is_linker(caller_pc(caller))))
        outcome = quick_freed(block, caller, -quick_bytes(block, how));
    if (LIKELY(outcome == WRITTEN))
        real.free(block);
    else
        (outcome == PENDING ? pending_free(block) : freed(block, caller));
}

/* ---- the functions ---- */

#define OP(name) (MALLOW_OP_ALLOC + MALLOW_FAMILY_##name)

static void *trace_malloc_done(void *block, size_t size) {
    return quick_allocated(block, size, OP(MALLOC), CALLER, BY_HEAD);
}

static void *trace_malloc_done_by_call(void *block, size_t size) {
    return quick_allocated(block, size, OP(MALLOC), CALLER, BY_CALL);
}

static void *trace_calloc_done(void *block, size_t count, size_t size) {
    return quick_allocated(block, count * size, OP(CALLOC), CALLER, BY_HEAD);
}

static void *trace_calloc_done_by_call(void *block, size_t count, size_t size) {
    return quick_allocated(block, count * size, OP(CALLOC), CALLER, BY_CALL);
}

static void trace_free(void *block) {
    quick_free(block, CALLER, BY_HEAD);
}

static void trace_free_by_call(void *block) {
    quick_free(block, CALLER, BY_CALL);
}

/* block NULL: it failed, or size is 0 and the old block was freed. */
static inline void realloc_done(void *block, size_t size, uint64_t done_op, struct caller caller, int64_t bytes,
                                int64_t old_bytes) {
    if (block != NULL)
        write_allocation(block, size, done_op, caller, bytes - old_bytes);
    else if (size == 0)
        one_word(ring_word(MALLOW_OP_REALLOC_FREED, 0, 0), caller, -old_bytes);
    else
        one_word(ring_word(MALLOW_OP_REALLOC_FAILED, 0, 0), caller, 0);
}

static inline void *trace_realloc_as(uint64_t family_op, uint64_t done_op, void *old, size_t size,
                                     struct caller caller) {
    if (old == NULL) {
        void *block = real.realloc(NULL, size);
        if (block != NULL)
            allocated(block, size, family_op, caller);
        return block;
    }
    int64_t old_bytes = order_bytes(old);
    one_word(ring_word(MALLOW_OP_REALLOC_BEGIN, 0, (uint64_t)old), caller, 0);
    void *block = real.realloc(old, size);
    realloc_done(block, size, done_op, caller, block != NULL ? order_bytes(block) : 0, old_bytes);
    return block;
}

static void *trace_realloc(void *old, size_t size) {
    return trace_realloc_as(OP(REALLOC), MALLOW_OP_REALLOC_DONE, old, size, CALLER);
}

static void *trace_reallocarray(void *old, size_t count, size_t size) {
    return trace_realloc_as(OP(REALLOCARRAY), MALLOW_OP_REALLOC_DONE | MALLOW_FLAG_REALLOCARRAY << 8, old, count * size,
                            CALLER);
}

static int trace_posix_memalign(void **result, size_t alignment, size_t size) {
    int error = real.posix_memalign(result, alignment, size);
    if (error == 0 && *result != NULL)
        allocated(*result, size, OP(POSIX_MEMALIGN), CALLER);
    return error;
}

#define X(name, result, parameters, arguments)                                                                         \
    static result trace_##name parameters {                                                                            \
        void *block = real.name arguments;                                                                             \
        return block != NULL ? allocated(block, size, MALLOW_OP_ALLOC + MALLOW_FAMILY_OF_##name, CALLER) : NULL;       \
    }
MALLOW_ALIGNED(X)
#undef X

/* ---- patched functions of other allocators ---- */

/* See order_bytes. */
static inline int64_t hooked_bytes(void *block, usable_size *usable) {
    return order_is_shared && usable != NULL && block != NULL ? (int64_t)usable(block) : 0;
}

static void trace_hooked_allocated(const struct hooked_call *call) {
    struct caller caller = caller_of(call->frame);
    uint64_t op = MALLOW_OP_ALLOC + call->family;
    int64_t bytes = hooked_bytes(call->block, call->usable);
    enum outcome outcome = quick_allocation(call->block, call->size, op, caller, bytes);
    if (outcome == PENDING)
        write_pending();
    else if (outcome != WRITTEN)
        write_allocation(call->block, call->size, op, caller, bytes);
}

static void trace_hooked_freed(const struct hooked_call *call) {
    struct caller caller = caller_of(call->frame);
    int64_t bytes = hooked_bytes(call->old, call->usable);
    enum outcome outcome = quick_freed(call->old, caller, -bytes);
    if (outcome == PENDING)
        write_pending();
    else if (outcome != WRITTEN)
        one_word(ring_word(MALLOW_OP_FREE, 0, (uint64_t)call->old), caller, -bytes);
}

static void trace_hooked_reallocating(struct hooked_call *call) {
    one_word(ring_word(MALLOW_OP_REALLOC_BEGIN, 0, (uint64_t)call->old), caller_of(call->frame), 0);
    call->old_bytes = hooked_bytes(call->old, call->usable);
}

static void trace_hooked_reallocated(const struct hooked_call *call) {
    uint64_t flag = call->family == MALLOW_FAMILY_REALLOCARRAY ? MALLOW_FLAG_REALLOCARRAY : 0;
    realloc_done(call->block, call->size, MALLOW_OP_REALLOC_DONE | flag << 8, caller_of(call->frame),
                 hooked_bytes(call->block, call->usable), call->old_bytes);
}

static const struct hooked_policy trace_hooked = {.allocated = trace_hooked_allocated,
                                                  .freed = trace_hooked_freed,
                                                  .reallocating = trace_hooked_reallocating,
                                                  .reallocated = trace_hooked_reallocated};

/* ---- the policy ---- */

static const struct policy *trace_setup(void);

static void trace_layout(struct file_layout *layout) {
    layout->bytes += rings_bytes(layout->max_threads);
}

static void trace_forked(void) {
    if (target_resume_in_child())
        policy_install(trace_setup());
    modules_forked();
    order_forked();
    own_tracer = NULL;
}

static void trace_left(void) {
    order_forked();
    tracers_forget();
    /* Nobody saw what was unloaded in between. */
    modules_linker_freed();
}

static void trace_thread_end(void) {
    own_tracer = NULL;
}

#define MEMBER(name, result, parameters, arguments) .name = trace_##name,
/* `by` is how the size of a block is known. Of the entries three differ by it, on the hot path. */
#define TRACE_POLICY(by)                                                                                               \
    {                                                                                                                  \
        .malloc_done = trace_malloc_done##by, .calloc_done = trace_calloc_done##by, .free = trace_free##by,            \
        MALLOW_OTHER(MEMBER).hooked = &trace_hooked, .setup = trace_setup, .over = policy_remove, .lose = lost_begin,  \
        .left = trace_left, .forked = trace_forked, .file_layout = trace_layout, .file_opened = modules_announce_all,  \
        .thread_start = ring_create, .thread_end = trace_thread_end, .region = trace_region,                           \
    }

/* The underlying allocator is glibc's; and any other. */
const struct policy trace_policy = TRACE_POLICY();
static const struct policy trace_policy_by_call = TRACE_POLICY(_by_call);

static const struct policy *trace_setup(void) {
    modules_setup();
    return real_sizes == REAL_SIZES_IN_HEADS ? &trace_policy : &trace_policy_by_call;
}

/*
 * Tracing: each allocation and free becomes a record in its thread's ring, with the whole stack of allocations.
 *
 * A stack that this ring has seen before is one number. Numbers are found by a hash of all return addresses, which the
 * unwinder carries along; one that is new is sent as what differs from the stack before it.
 */
#include "arch.h"
#include "entries.h"
#include "measure.h"
#include "modules.h"
#include "numbers.h"
#include "ring.h"
#include "target.h"
#include "unwind.h"

#include <errno.h>

/* Events of signal handlers that arrive while their thread is inside an event. */
#define PENDING_MOST 64u

struct pending {
    uint64_t word; /* head word of the record */
    uint64_t size;
    uint64_t pc;
};

/*
 * A thread's private state, one for each block of the process file; it stays with the block when that changes owners,
 * so the stacks that the ring knows stay known.
 *
 * Invariant: only the block's owner touches it. `inside` is the frame address of the event under way, 0 between
 * events; a signal handler that comes while it is not 0 touches pending and pendings alone.
 */
struct tracer {
    uint64_t inside;
    struct ring ring;
    uint64_t epoch;
    uint32_t until_order; /* events until the next ORDER record */
    uint32_t generation;
    uint32_t emitted; /* frames of the unwinder's stack, from the root on, that equal the ring's last stack */
    uint32_t pendings;
    struct numbers numbers;
    struct unwinder unwinder;
    struct pending pending[PENDING_MOST];
};

/* By block index. Entries live as long as the process image. */
static struct tracer **tracers;

static _Thread_local struct tracer *own_tracer __attribute__((tls_model("initial-exec")));

/* ---- stacks ---- */

/* From here on the ring knows no stacks. The GENERATION record says so to mallow. */
COLD static int stacks_reset(struct tracer *t) {
    uint32_t generation = __atomic_load_n(&modules_generation, __ATOMIC_ACQUIRE);
    uint64_t *room = ring_room(&t->ring, 1);
    if (room == NULL)
        return 0;
    room[0] = ring_word(MALLOW_OP_GENERATION, 0, generation);
    ring_publish(&t->ring, 1);
    t->generation = generation;
    t->emitted = 0;
    if (numbers_reset(&t->numbers))
        return 1;
    target_over();
    return 0;
}

/* Sends the unwinder's stack as a new one, and gives it the next number. */
COLD static uint32_t stack_send(struct tracer *t, uint64_t hash) {
    const struct unwinder *u = &t->unwinder;
    uint32_t number = numbers_add(&t->numbers, hash);
    if (number == NUMBER_NONE) {
        if (!stacks_reset(t))
            return NUMBER_NONE;
        number = numbers_add(&t->numbers, hash);
    }
    uint32_t keep = t->emitted < u->shared ? t->emitted : u->shared, fresh = u->depth - keep;
    uint64_t *room = ring_room(&t->ring, 1 + fresh);
    if (room == NULL)
        return NUMBER_NONE;
    room[0] = ring_word(MALLOW_OP_STACK, u->cut ? MALLOW_FLAG_CUT : 0, (uint64_t)keep << 32 | fresh);
    for (uint32_t i = 0; i < fresh; i++)
        room[1 + i] = u->places[keep + i].pc;
    ring_publish(&t->ring, 1 + fresh);
    return number;
}

/* Takes the number of the unwinder's stack into use. 0: the recording is over. */
static int stack_number(struct tracer *t) {
    struct unwinder *u = &t->unwinder;
    if (UNLIKELY(t->generation != __atomic_load_n(&modules_generation, __ATOMIC_ACQUIRE)) && !stacks_reset(t))
        return 0;
    uint64_t hash = u->states[u->depth - 1].hash;
    uint32_t number = numbers_find(&t->numbers, hash);
    if (UNLIKELY(number == NUMBER_NONE) && (number = stack_send(t, hash)) == NUMBER_NONE)
        return 0;
    numbers_use(&t->numbers, number);
    t->emitted = u->depth;
    return 1;
}

/* ---- entering and leaving an event ---- */

COLD static struct tracer *tracer_make(struct mallow_thread *block) {
    uint32_t index = thread_index(block);
    struct tracer *t = __atomic_load_n(&tracers[index], __ATOMIC_RELAXED);
    uint32_t limit = target.control->max_depth;
    if (t == NULL) {
        t = sys_memory(sizeof *t + unwind_bytes(limit));
        if (t == NULL || !numbers_reset(&t->numbers))
            return NULL;
        unwind_setup(&t->unwinder, t + 1, limit);
        t->ring.block = NULL;
        __atomic_store_n(&tracers[index], t, __ATOMIC_RELAXED);
    }
    t->inside = (uint64_t)__builtin_frame_address(0);
    if (t->ring.block != block) { /* new, or a parent's, copied by fork */
        ring_open(&t->ring, block);
        t->generation = UINT32_MAX;
        t->pendings = 0;
    }
    unwind_adopt(&t->unwinder);
    t->emitted = 0;
    t->epoch = 0;
    return t;
}

static struct tracer *tracer_start(void) {
    /* At a thread's end, of the block that was given back: until there is a new one, events in here are our own. */
    own_tracer = NULL;
    struct mallow_thread *block = thread_enter();
    if (block == NULL)
        return NULL;
    struct tracer *t = NULL;
    modules_learn();
    if (tracers == NULL) {
        struct tracer **array = sys_memory(target.process->max_threads * sizeof *tracers), **none = NULL;
        if (array != NULL &&
            !__atomic_compare_exchange_n(&tracers, &none, array, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            sys_unmap(array, target.process->max_threads * sizeof *tracers);
    }
    if (tracers != NULL)
        t = tracer_make(block);
    uint64_t *room = t != NULL ? ring_room(&t->ring, 1) : NULL;
    if (room == NULL) {
        __atomic_fetch_add(&target.process->unrecorded, 1, __ATOMIC_RELAXED);
        target_over();
        return NULL;
    }
    room[0] = ring_word(MALLOW_OP_THREAD, 0, block->tid);
    ring_publish(&t->ring, 1);
    own_tracer = t;
    return t;
}

/* A thread's first event: takes a block, and says so in its ring. No handler may leave this by longjmp. */
COLD static struct tracer *tracer_enter(void) {
    int saved_errno = errno;
    uint64_t mask = sys_block_signals();
    struct tracer *t = tracer_start();
    sys_restore_signals(mask);
    errno = saved_errno;
    return t;
}

/*
 * mallow's clock moved, or stopped for good, or many events went by. The process counts these moments: one shared
 * addition in 64 events, where a clock would need an instruction or a system call that a filter may forbid.
 */
COLD static int time_passed(struct tracer *t, uint64_t epoch) {
    if (epoch == MALLOW_EPOCH_OVER) {
        target_over();
        return 0;
    }
    uint64_t *room = ring_room(&t->ring, 2), count = 0;
    if (room == NULL)
        return 0;
    if (epoch != t->epoch)
        room[count++] = ring_word(MALLOW_OP_TIME, 0, epoch);
    room[count++] = ring_word(MALLOW_OP_ORDER, 0, __atomic_add_fetch(&target.process->order, 1, __ATOMIC_SEQ_CST));
    ring_publish(&t->ring, count);
    t->epoch = epoch;
    t->until_order = MALLOW_ORDER_EVENTS;
    return 1;
}

static uint64_t pack_size(uint64_t size, uint32_t stack) {
    return size << MALLOW_STACK_BITS | stack;
}

/* Writes a record of an allocation with the stack that was numbered last. */
static void emit_allocation(struct tracer *t, uint64_t word, uint64_t size) {
    uint64_t wide = size >> MALLOW_SIZE_BITS != 0;
    uint64_t *room = ring_room(&t->ring, 2 + wide);
    if (UNLIKELY(room == NULL))
        return;
    if (UNLIKELY(wide)) {
        room[0] = word | (uint64_t)MALLOW_FLAG_WIDE_SIZE << 48;
        room[1] = size;
        room[2] = t->numbers.last;
    } else {
        room[0] = word;
        room[1] = pack_size(size, t->numbers.last);
    }
    ring_publish(&t->ring, 2 + wide);
}

static int carries_stack(uint64_t word) {
    uint64_t op = word >> 56;
    return op >= MALLOW_OP_ALLOC || op == MALLOW_OP_REALLOC_DONE;
}

/* Writes what signal handlers left. Their stacks are cut to the caller alone: this thread's own walk was under way. */
COLD static void flush_pending(struct tracer *t) {
    for (uint32_t i = 0; i < t->pendings; i++) {
        const struct pending *p = &t->pending[i];
        if (carries_stack(p->word)) {
            struct unwinder *u = &t->unwinder;
            u->places[0] = (struct place){.pc = p->pc};
            u->states[0] = (struct state){.hash = p->pc * 0x9e3779b97f4a7c15ull};
            u->depth = 1;
            u->shared = 0;
            u->cut = u->forget = 1;
            if (stack_number(t))
                emit_allocation(t, p->word, p->size);
        } else {
            uint64_t *room = ring_room(&t->ring, 1);
            if (room != NULL) {
                room[0] = p->word;
                ring_publish(&t->ring, 1);
            }
        }
    }
    t->pendings = 0;
}

/* An event in a signal handler, inside another event of the same thread. */
COLD static void pend(struct tracer *t, uint64_t word, uint64_t size, uint64_t pc) {
    uint32_t at = t->pendings;
    if (at >= PENDING_MOST) {
        t->ring.block->lost++;
        return;
    }
    t->pendings = at + 1;
    t->pending[at] = (struct pending){word, size, pc};
}

/*
 * The event `inside` was left by longjmp out of a signal handler: nobody will finish it. That is certain only when the
 * new event's frame is further out on the same stack. What it had half done is dropped.
 */
COLD static int abandoned(struct tracer *t, uint64_t frame) {
    struct unwinder *u = &t->unwinder;
    if (!unwind_owns(u, frame) || !unwind_owns(u, t->inside) || frame <= t->inside)
        return 0;
    t->unwinder.depth = 0;
    t->unwinder.checks = 0;
    t->unwinder.forget = 1;
    t->inside = frame;
    return stacks_reset(t);
}

/* Begins an event of the function whose frame this is. NULL: nothing is to be written. */
static inline struct tracer *event_begin(const struct arch_frame *frame, uint64_t word, uint64_t size) {
    struct tracer *t = own_tracer;
    if (UNLIKELY(thread_block() == NULL)) {
        if ((t = tracer_enter()) == NULL)
            return NULL;
    } else if (UNLIKELY(t == NULL || t->inside != 0)) {
        if (t == NULL)
            return NULL; /* the C library, called by tracer_enter */
        if (!abandoned(t, (uint64_t)frame)) {
            pend(t, word, size, frame->return_address);
            return NULL;
        }
    }
    t->inside = (uint64_t)frame;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    uint64_t epoch = __atomic_load_n(&target.control->epoch, __ATOMIC_RELAXED);
    if (UNLIKELY(epoch != t->epoch || --t->until_order == 0) && !time_passed(t, epoch)) {
        t->inside = 0;
        return NULL;
    }
    return t;
}

static inline void event_end(struct tracer *t) {
    for (;;) {
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        *(volatile uint64_t *)&t->inside = 0;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        if (LIKELY(*(volatile uint32_t *)&t->pendings == 0))
            return;
        t->inside = (uint64_t)__builtin_frame_address(0);
        flush_pending(t);
    }
}

/* An allocation: after the allocator returned, before the caller sees the address. */
static __attribute__((noinline)) void allocated(void *block, size_t size, uint64_t op, const struct arch_frame *frame) {
    uint64_t word = ring_word(op & 0xff, op >> 8, (uint64_t)block);
    struct tracer *t = event_begin(frame, word, size);
    if (t == NULL)
        return;
    struct unwinder *u = &t->unwinder;
    unwind(u, frame->return_address, (uint64_t)(frame + 1), frame->caller_rbp);
    int known = u->shared == u->depth && t->emitted == u->depth &&
                t->generation == __atomic_load_n(&modules_generation, __ATOMIC_ACQUIRE);
    if (LIKELY(known) || stack_number(t))
        emit_allocation(t, word, size);
    event_end(t);
}

/* A record of one word: before the allocator is called. */
static inline void one_word(uint64_t op, void *block, const struct arch_frame *frame) {
    uint64_t word = ring_word(op, 0, (uint64_t)block);
    struct tracer *t = event_begin(frame, word, 0);
    if (t == NULL)
        return;
    uint64_t *room = ring_room(&t->ring, 1);
    if (LIKELY(room != NULL)) {
        room[0] = word;
        ring_publish(&t->ring, 1);
    }
    event_end(t);
}

/* Not inlined: the frame is its own. */
COLD void trace_region(uint32_t number, int end, int this_thread) {
    uint64_t flags = this_thread ? MALLOW_FLAG_THIS_THREAD : 0;
    uint64_t word = ring_word(MALLOW_OP_REGION, flags, (uint64_t)number << 1 | (end != 0));
    struct tracer *t = event_begin(__builtin_frame_address(0), word, 0);
    if (t == NULL)
        return;
    uint64_t *room = ring_room(&t->ring, 1);
    if (room != NULL) {
        room[0] = word;
        ring_publish(&t->ring, 1);
    }
    event_end(t);
}

/* ---- the functions ---- */

#define FRAME    ((const struct arch_frame *)__builtin_frame_address(0))
#define OP(name) (MALLOW_OP_ALLOC + MALLOW_FAMILY_##name)

static void *trace_malloc_done(void *block, size_t size) {
    allocated(block, size, OP(MALLOC), FRAME);
    return block;
}

static void *trace_calloc_done(void *block, size_t size) {
    allocated(block, size, OP(CALLOC), FRAME);
    return block;
}

static void trace_free(void *block) {
    const struct arch_frame *frame = FRAME;
    modules_freed_by(frame->return_address);
    one_word(MALLOW_OP_FREE, block, frame);
    real.free(block);
}

static inline void *trace_realloc_as(uint64_t family_op, uint64_t done_op, void *old, size_t size,
                                     const struct arch_frame *frame) {
    if (old == NULL) {
        void *block = real.realloc(NULL, size);
        if (block != NULL)
            allocated(block, size, family_op, frame);
        return block;
    }
    one_word(MALLOW_OP_REALLOC_BEGIN, old, frame);
    void *block = real.realloc(old, size);
    if (block != NULL)
        allocated(block, size, done_op, frame);
    else
        one_word(size == 0 ? MALLOW_OP_REALLOC_FREED : MALLOW_OP_REALLOC_FAILED, NULL, frame);
    return block;
}

static void *trace_realloc(void *old, size_t size) {
    return trace_realloc_as(OP(REALLOC), MALLOW_OP_REALLOC_DONE, old, size, FRAME);
}

/* See count_reallocarray. */
static void *trace_reallocarray(void *old, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return trace_realloc_as(OP(REALLOCARRAY), MALLOW_OP_REALLOC_DONE | MALLOW_FLAG_REALLOCARRAY << 8, old, bytes,
                            FRAME);
}

static void *trace_aligned_alloc(size_t alignment, size_t size) {
    void *block = real.aligned_alloc(alignment, size);
    if (block != NULL)
        allocated(block, size, OP(ALIGNED_ALLOC), FRAME);
    return block;
}

static void *trace_memalign(size_t alignment, size_t size) {
    void *block = real.memalign(alignment, size);
    if (block != NULL)
        allocated(block, size, OP(MEMALIGN), FRAME);
    return block;
}

static int trace_posix_memalign(void **result, size_t alignment, size_t size) {
    int error = real.posix_memalign(result, alignment, size);
    if (error == 0 && *result != NULL)
        allocated(*result, size, OP(POSIX_MEMALIGN), FRAME);
    return error;
}

static void *trace_valloc(size_t size) {
    void *block = real.valloc(size);
    if (block != NULL)
        allocated(block, size, OP(VALLOC), FRAME);
    return block;
}

static void *trace_pvalloc(size_t size) {
    void *block = real.pvalloc(size);
    if (block != NULL)
        allocated(block, size, OP(PVALLOC), FRAME);
    return block;
}

const struct policy trace_policy = {
    .malloc_done = trace_malloc_done,
    .calloc_done = trace_calloc_done,
    .free = trace_free,
    .realloc = trace_realloc,
    .reallocarray = trace_reallocarray,
    .aligned_alloc = trace_aligned_alloc,
    .memalign = trace_memalign,
    .posix_memalign = trace_posix_memalign,
    .valloc = trace_valloc,
    .pvalloc = trace_pvalloc,
};

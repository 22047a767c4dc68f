/* A thread's tracer: where it begins, new stacks, what signal handlers left.  */
#include "trace/tracer.h"
#include "arch.h"
#include "walk/modules.h"

#include <errno.h>

_Thread_local struct tracer *own_tracer __attribute__((tls_model("initial-exec")));

/* By block index. Entries live as long as the process image. */
static struct tracer **tracers;
/* Its entries. */
static uint32_t tracers_most;

/* ---- stacks ---- */

/* From here on the ring knows no stacks. The GENERATION record says so to mallow. */
COLD static int stacks_reset(struct tracer *t) {
    uint32_t generation = __atomic_load_n(&modules_generation, __ATOMIC_ACQUIRE);
    if (!ring_write(&t->ring, ring_word(MALLOW_OP_GENERATION, 0, generation)))
        return 0;
    t->generation = generation;
    t->packed = PACKED_NONE;
    if (stacks_forget(&t->stacks))
        return 1;
    t->ring.block->lost++;
    target_count_lost();
    return 0;
}

/* Sends the unwinder's stack as a new one, and gives it the next number. */
COLD static uint32_t stack_send(struct tracer *t) {
    struct stacks *stacks = &t->stacks;
    const struct unwinder *u = &stacks->unwinder;
    uint64_t hash = u->states[u->depth - 1].hash;
    uint32_t number = numbers_add(&stacks->numbers, hash);
    if (number == NUMBER_NONE) {
        if (!stacks_reset(t))
            return NUMBER_NONE;
        number = numbers_add(&stacks->numbers, hash);
    }
    uint32_t keep = stacks_kept(stacks), fresh = u->depth - keep;
    uint64_t *room = ring_room(&t->ring, 1 + fresh);
    if (room == NULL)
        return NUMBER_NONE;
    room[0] = ring_word(MALLOW_OP_STACK, u->cut ? MALLOW_FLAG_CUT : 0, (uint64_t)keep << 32 | fresh);
    for (uint32_t i = 0; i < fresh; i++)
        room[1 + i] = u->places[keep + i].pc;
    ring_publish(&t->ring, 1 + fresh);
    return number;
}

int tracer_stack(struct tracer *t) {
    if (UNLIKELY(t->generation != __atomic_load_n(&modules_generation, __ATOMIC_ACQUIRE)) && !stacks_reset(t))
        return 0;
    uint32_t number = stacks_number(&t->stacks);
    if (UNLIKELY(number == NUMBER_NONE) && (number = stack_send(t)) == NUMBER_NONE)
        return 0;
    stacks_use(&t->stacks, number);
    return 1;
}

/* ---- entering and leaving an event ---- */

/*
 * Memory for a tracer, half a page off the block's place in its page. A processor looks at the lowest 12 bits of an
 * address first: where they are equal, a load waits for a store that is not its own, and each event writes and reads
 * both.
 */
static struct tracer *tracer_memory(const struct mallow_thread *block, uint64_t bytes) {
    char *page = sys_memory(bytes + ARCH_PAGE);
    return page == NULL ? NULL : (struct tracer *)(page + (((uint64_t)block + ARCH_PAGE / 2) & (ARCH_PAGE - 1)));
}

COLD static struct tracer *tracer_make(struct mallow_thread *block) {
    uint32_t index = thread_index(block);
    struct tracer *t = __atomic_load_n(&tracers[index], __ATOMIC_RELAXED);
    uint32_t limit = target.control->max_depth;
    /* An earlier run that the process left may have had another limit. */
    if (t == NULL || t->stacks.unwinder.limit != limit) {
        t = tracer_memory(block, sizeof *t + unwind_bytes(limit));
        if (t == NULL || !stacks_setup(&t->stacks, t + 1, limit))
            return NULL;
        t->ring.block = NULL;
        __atomic_store_n(&tracers[index], t, __ATOMIC_SEQ_CST);
    }
    t->guard.inside = (uint64_t)__builtin_frame_address(0);
    if (t->ring.block != block) { /* new, or a parent's, copied by fork */
        ring_open(&t->ring, block);
        t->generation = UINT32_MAX;
        t->guard.pendings = 0;
    }
    stacks_lose(&t->stacks);
    unwind_adopt(&t->stacks.unwinder);
    t->epoch = 0;
    order_begin(&t->order);
    return t;
}

/* The second thread's first event: from here on all threads stamp, the first one at its next event. */
static void tracers_share(void) {
    uint32_t threads = __atomic_load_n(&target.process->threads, __ATOMIC_ACQUIRE);
    if (threads < 2 || order_is_shared)
        return;
    order_share();
    for (uint32_t i = 0; i < threads && i < target.process->max_threads; i++) {
        struct tracer *t = __atomic_load_n(&tracers[i], __ATOMIC_SEQ_CST);
        if (t != NULL)
            __atomic_store_n(&t->order.quick_limit, 0, __ATOMIC_SEQ_CST);
    }
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
            sys_memory_free(array, target.process->max_threads * sizeof *tracers);
    }
    tracers_most = target.process->max_threads;
    if (tracers != NULL && !target_is_stopped())
        t = tracer_make(block);
    if (t == NULL) {
        block->lost++;
        if (!target_is_stopped())
            target_count_lost();
        return NULL;
    }
    if (!ring_write(&t->ring, ring_word(MALLOW_OP_THREAD, thread_watch_end() ? 0 : MALLOW_FLAG_AGAIN, block->tid)))
        return NULL;
    tracers_share();
    own_tracer = t;
    return t;
}

COLD struct tracer *tracer_enter(void) {
    if (thread_is_refused())
        return NULL;
    int saved_errno = errno;
    uint64_t mask = sys_block_signals();
    struct tracer *t = tracer_start();
    sys_restore_signals(mask);
    errno = saved_errno;
    return t;
}

COLD int tracer_time_passed(struct tracer *t, uint64_t epoch) {
    if (epoch == MALLOW_EPOCH_OVER) {
        target_stop();
        return 0;
    }
    if (!ring_write(&t->ring, ring_word(MALLOW_OP_TIME, 0, epoch)))
        return 0;
    t->epoch = epoch;
    return 1;
}

void tracer_allocation(struct tracer *t, uint64_t word, uint64_t size) {
    uint64_t wide = size >> MALLOW_SIZE_BITS != 0, words = 3;
    uint64_t *room = ring_room(&t->ring, 2 + wide);
    if (UNLIKELY(room == NULL))
        return;
    if (UNLIKELY(wide)) {
        room[0] = word | (uint64_t)MALLOW_FLAG_WIDE_SIZE << 48;
        room[1] = size;
        room[2] = t->stacks.numbers.last;
    } else {
        words = tracer_write(t, room, word, size);
    }
    ring_publish(&t->ring, words);
}

static int carries_stack(uint64_t word) {
    uint64_t op = word >> 56;
    return op >= MALLOW_OP_ALLOC || op == MALLOW_OP_REALLOC_DONE;
}

/* Writes what signal handlers left. Their stacks are cut to the caller alone: this thread's own walk was under way. */
COLD void tracer_flush(struct tracer *t) {
    for (uint32_t i = 0; i < t->guard.pendings; i++) {
        const struct pending *p = &t->pending[i];
        if (carries_stack(p->word)) {
            struct unwinder *u = &t->stacks.unwinder;
            stacks_lose(&t->stacks);
            u->places[0] = (struct place){.pc = p->pc};
            u->states[0] = (struct state){.hash = p->pc * 0x9e3779b97f4a7c15ull};
            u->depth = u->filled = 1;
            u->shared = 0;
            u->cut = 1;
            if (tracer_stack(t))
                tracer_allocation(t, p->word, p->size);
        } else {
            ring_write(&t->ring, p->word);
        }
    }
    t->guard.pendings = 0;
}

COLD void tracer_pend(struct tracer *t, uint64_t word, uint64_t size, uint64_t pc) {
    uint32_t at = t->guard.pendings;
    if (at >= PENDING_MOST) {
        t->ring.block->lost++;
        return;
    }
    t->guard.pendings = at + 1;
    t->pending[at] = (struct pending){word, size, pc};
}

COLD int tracer_abandoned(struct tracer *t, uint64_t sp) {
    if (!guard_is_abandoned(&t->guard, &t->stacks.unwinder, sp))
        return 0;
    stacks_lose(&t->stacks);
    t->guard.inside = sp;
    return stacks_reset(t);
}

void tracers_forget(void) {
    for (uint32_t i = 0; tracers != NULL && i < tracers_most; i++)
        if (tracers[i] != NULL)
            tracers[i]->ring.block = NULL;
}

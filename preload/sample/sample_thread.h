/*
 * What a thread needs to record samples: an unwinder, and the guard that keeps a signal handler out of what it
 * interrupted.
 */
#ifndef MALLOW_SAMPLE_THREAD_H
#define MALLOW_SAMPLE_THREAD_H

#include "base/filter.h"
#include "base/target.h"
#include "sample/lock.h"
#include "sample/slot_pool.h"
#include "walk/caller.h"
#include "walk/guard.h"
#include "walk/modules.h"
#include "walk/unwind.h"

#define PENDING_MOST 32u

/* The stack of an allocation, or of a free, as it was walked last. */
struct stack_memory {
    struct unwinder unwinder;
    uint32_t stack;      /* its number in the log; 0: to be looked up */
    uint32_t generation; /* modules_generation when it was */
};

/*
 * Invariant: only its owner touches it; a signal handler that interrupts the work on a sample touches `pending` and
 * guard.pendings alone.
 */
struct sample_thread {
    struct guard guard;
    uint32_t owned; /* taken by compare-and-swap; 0: its thread has ended */
    uint32_t tid;
    uint32_t holds; /* the lock, or is about to */
    uint64_t epoch; /* mallow's clock when tables were last asked for */
    struct sample_thread *next;
    struct stack_memory *walked; /* the last walk's; NULL: a filter forbade it */
    struct stack_memory begins;  /* an allocation's stack is most like the last allocation's, */
    struct stack_memory ends;    /* and a free's like the last free's */
    void *pending[PENDING_MOST]; /* blocks that signal handlers freed */
};

extern _Thread_local struct sample_thread *own_sample_thread __attribute__((tls_model("initial-exec"))) HIDDEN;

/* Makes this image's file and slots, once. 0: nothing can be recorded here. No handler may leave this by longjmp. */
COLD int sample_image_open(void);
/* The calling thread's, from its first sample on; NULL where there is none. */
COLD struct sample_thread *sample_thread_enter(void);
/* The calling thread ends, and leaves it to others. */
void sample_thread_leave(void);
/* The process leaves its run: nobody has one any more. */
void sample_threads_left(void);
/* Whether the work under way was left by longjmp: see guard.h. */
COLD int sample_thread_abandoned(struct sample_thread *sample_thread, uint64_t sp);
/* Writes what signal handlers left. */
COLD void sample_thread_flush(struct sample_thread *sample_thread);

/* Begins what nobody may interrupt. NULL: the caller interrupted it itself, or has none. */
static inline struct sample_thread *sample_thread_begin(struct caller caller) {
    struct sample_thread *s = (struct sample_thread *)((uintptr_t)own_sample_thread & image_alive);
    if (UNLIKELY(s == NULL)) {
        if ((s = sample_thread_enter()) == NULL)
            return NULL;
    } else if (UNLIKELY(s->guard.inside != 0) && !sample_thread_abandoned(s, caller.sp)) {
        return NULL;
    }
    guard_enter(&s->guard, caller.sp);
    return s;
}

static inline void sample_thread_end(struct sample_thread *s) {
    while (!guard_leave(&s->guard)) {
        s->guard.inside = (uint64_t)__builtin_frame_address(0);
        sample_thread_flush(s);
    }
}

/*
 * Walks the caller's stack and remembers it in stack_memory; the first time a thread meets a module, it may wait for
 * its table.
 */
void sample_thread_walk_anew(struct sample_thread *sample_thread, struct stack_memory *stack_memory,
                             struct caller caller);

/* Tables come while mallow's clock ticks, and at no other time. */
static inline int tables_may_arrive(const struct sample_thread *s) {
    return UNLIKELY(modules_unanswered != 0) && !filter_is(FILTER_SEEN) &&
           s->epoch != __atomic_load_n(&target.control->epoch, __ATOMIC_RELAXED);
}

static inline void sample_thread_walk(struct sample_thread *s, struct stack_memory *stack_memory,
                                      struct caller caller) {
    s->walked = stack_memory;
    if (tables_may_arrive(s) || !unwind_same(&stack_memory->unwinder, caller_pc(caller), caller.sp, caller.fp))
        sample_thread_walk_anew(s, stack_memory, caller);
}

/* The lock of lock.h, for a thread that notes that it has it; NULL: for none. */
static inline int sample_lock(struct sample_thread *s) {
    return lock_samples(s != NULL ? &s->holds : NULL);
}

static inline void sample_unlock(struct sample_thread *s) {
    unlock_samples(s != NULL ? &s->holds : NULL);
}

/* lifecycle.c: the block's sample ends here. 0: there is none. */
int sample_end(void *block, uint32_t kind, const void *moved_to, struct sample_thread *sample_thread);

#endif

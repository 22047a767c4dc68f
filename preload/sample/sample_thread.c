/* Threads that sample: begin and end, fork, walking with tables that come late.  */
#include "sample/sample_thread.h"
#include "base/attachment.h"
#include "sample/foreign.h"
#include "sample/sample.h"
#include "sample/sample_log.h"
#include "walk/modules.h"

#include <errno.h>

_Thread_local struct sample_thread *own_sample_thread __attribute__((tls_model("initial-exec")));

/*
 * Set while this thread is inside sample_thread_enter: what the C library allocates for us there is not the target's.
 */
static _Thread_local char entering __attribute__((tls_model("initial-exec")));

static struct sample_thread *sample_threads; /* all that there are; they live as long as the image */
static int opened;                           /* -1: cannot be */

/* ---- fork ---- */

void sample_fork_begins(void) {
    lock_samples_fork_begins(own_sample_thread != NULL && own_sample_thread->holds);
}

void sample_forked_child(void) {
    log_forget();
    lock_samples_forked();
    entering = 0;
    opened = opened < 0 ? -1 : 0;
    for (struct sample_thread *s = sample_threads; s != NULL; s = s->next) {
        if (s != own_sample_thread)
            s->owned = 0;
        s->begins.stack = s->ends.stack = 0;
    }
    if (own_sample_thread != NULL)
        own_sample_thread->tid = thread_id();
}

/* ---- threads ---- */

void sample_threads_left(void) {
    opened = 0;
    for (struct sample_thread *s = sample_threads; s != NULL; s = s->next)
        s->owned = s->begins.stack = s->ends.stack = 0;
}

void sample_thread_leave(void) {
    struct sample_thread *s = own_sample_thread;
    own_sample_thread = NULL;
    if (s != NULL)
        __atomic_store_n(&s->owned, 0, __ATOMIC_RELEASE);
}

static struct sample_thread *sample_thread_reuse(void) {
    for (struct sample_thread *s = __atomic_load_n(&sample_threads, __ATOMIC_ACQUIRE); s != NULL; s = s->next) {
        uint32_t none = 0;
        if (__atomic_load_n(&s->owned, __ATOMIC_RELAXED) == 0 &&
            __atomic_compare_exchange_n(&s->owned, &none, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return s;
    }
    return NULL;
}

static struct sample_thread *sample_thread_new(void) {
    uint32_t limit = target.control->max_depth;
    uint64_t bytes = sizeof(struct sample_thread) + 2 * unwind_bytes(limit);
    struct sample_thread *s = sys_memory(bytes);
    if (s == NULL)
        return NULL;
    s->owned = 1;
    struct unwinder *begins = &s->begins.unwinder, *ends = &s->ends.unwinder;
    if (!unwind_setup(begins, s + 1, limit) || !unwind_setup(ends, (char *)(s + 1) + unwind_bytes(limit), limit)) {
        sys_memory_free(s, bytes);
        return NULL;
    }
    /* Used during a walk alone. */
    ends->fresh_places = begins->fresh_places;
    ends->fresh_states = begins->fresh_states;
    s->next = __atomic_load_n(&sample_threads, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&sample_threads, &s->next, s, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
    return s;
}

/* Call with signals blocked and target_lock held. */
static int open_locked(void) {
    if (image_alive == 0) { /* a child made by a bare clone */
        target_forked();
        image_alive = UINTPTR_MAX;
    }
    if (opened > 0 && guarding_is_wanted())
        guarding->join();
    if (opened != 0)
        return opened > 0;
    opened = -1;
    uint32_t most = target.control->max_slots;
    int late = inplace != NULL && attachment_is_late();
    if (late ? !inplace->make(most) : owned_range.bytes == 0 && !slots_reserve(most)) {
        __atomic_fetch_add(&target.control->failed_processes, 1, __ATOMIC_RELAXED);
        sample_over(MALLOW_OVER_NOT);
        return 0;
    }
    if (!sample_lock(NULL))
        return 0;
    int failed = process_open();
    sample_unlock(NULL);
    if (failed)
        return 0;
    if (foreign_functions) {
        sample_over(MALLOW_OVER_FOREIGN);
        return 0;
    }
    thread_setup();
    if (guarding_is_wanted())
        guarding->join();
    opened = 1;
    return 1;
}

/* Under a filter: what is open stays so, but nothing is opened. */
static int may_go_on(void) {
    if (opened == 0 || image_alive == 0) {
        __atomic_fetch_add(&target.control->failed_processes, 1, __ATOMIC_RELAXED);
        opened = -1;
        sample_over(MALLOW_OVER_FILTER);
    }
    return opened > 0;
}

COLD int sample_image_open(void) {
    if (entering || filter_is(FILTER_FORBIDS_SAMPLES) || (filter_is(FILTER_SEEN) && !may_go_on()))
        return 0;
    uint64_t mask = sys_block_signals();
    int saved_errno = errno;
    entering = 1;
    lock_acquire(&target_lock);
    int done = open_locked();
    lock_release(&target_lock);
    entering = 0;
    errno = saved_errno;
    sys_restore_signals(mask);
    return done;
}

COLD struct sample_thread *sample_thread_enter(void) {
    if (entering || !sample_image_open())
        return NULL;
    uint64_t mask = sys_block_signals();
    int saved_errno = errno;
    entering = 1;
    struct sample_thread *s = own_sample_thread; /* a child has its parent's */
    if (s == NULL && thread_watch_end() && (s = sample_thread_reuse()) == NULL)
        s = sample_thread_new();
    if (s != NULL) {
        s->guard = (struct guard){0};
        s->holds = 0;
        s->tid = thread_id();
        unwind_adopt(&s->begins.unwinder);
        unwind_adopt(&s->ends.unwinder);
        own_sample_thread = s;
    }
    errno = saved_errno;
    entering = 0;
    sys_restore_signals(mask);
    return s;
}

COLD int sample_thread_abandoned(struct sample_thread *s, uint64_t sp) {
    if (!guard_is_abandoned(&s->guard, &s->begins.unwinder, sp))
        return 0;
    if (s->holds) /* half of a change was done */
        lock_samples_abandoned();
    unwind_adopt(&s->begins.unwinder);
    unwind_adopt(&s->ends.unwinder);
    return 1;
}

COLD static void tables_fetch(struct sample_thread *s) {
    modules_await();
    modules_fetch(unwind_flush);
    s->epoch = __atomic_load_n(&target.control->epoch, __ATOMIC_RELAXED);
}

void sample_thread_walk_anew(struct sample_thread *s, struct stack_memory *stack_memory, struct caller caller) {
    struct unwinder *into = &stack_memory->unwinder;
    stack_memory->stack = 0;
    if (filter_is(FILTER_FORBIDS_SAMPLES)) {
        s->walked = NULL;
        return;
    }
    modules_learn();
    if (tables_may_arrive(s))
        tables_fetch(s);
    uint32_t before = modules_unanswered;
    unwind(into, caller_pc(caller), caller.sp, caller.fp);
    if (UNLIKELY(modules_unanswered > before)) {
        tables_fetch(s);
        unwind(into, caller_pc(caller), caller.sp, caller.fp);
    }
}

/* Slow paths of a sample's life: releasing its memory, failures, deferred frees. */
#include "sample/lifecycle.h"
#include "base/attachment.h"
#include "sample/sample.h"

#include <stdlib.h>
#include <string.h>

void sample_discard_slot(struct slot *slot, struct sample_thread *s) {
    slot_discard(slot);
    if (sample_lock(s)) {
        slot_put_discarded(slot);
        sample_unlock(s);
    }
}

/* Without the lock: gives back memory that nobody has needed for long. */
COLD void sample_discard_idle(struct slot *list, struct sample_thread *s) {
    while (list != NULL) {
        struct slot *next = slot_next(list);
        sample_discard_slot(list, s);
        list = next;
    }
}

COLD void *sample_refused(size_t size, size_t alignment) {
    if (sample_log != NULL && size < 1ull << 47)
        __atomic_fetch_add(&sample_log->without_slot, 1, __ATOMIC_RELAXED);
    probe_refused(size, alignment);
    return NULL;
}

COLD void *sample_missed(void) {
    if (sample_log != NULL)
        __atomic_fetch_add(&sample_log->missed, 1, __ATOMIC_RELAXED);
    return NULL;
}

COLD uint32_t sample_stack_new(struct stack_memory *stack_memory) {
    if (stack_memory == NULL || filter_is(FILTER_FORBIDS_SAMPLES))
        return 0;
    stack_memory->generation = modules_generation;
    return stack_memory->stack = log_stack(&stack_memory->unwinder, stack_memory->generation);
}

/*
 * A free of what is no live sample, though it lies among the slots. A second free ends as glibc ends it. Where a slot
 * was unmapped behind our back, other memory may lie there now, and glibc knows it.
 */
COLD void sample_free_other(void *block) {
    static const char text[] = "free(): double free detected in tcache 2\n";
    const struct slot *slot = slot_of(block);
    if (slot == NULL || slot->seen.address != (uint64_t)block) {
        real.free(block);
        return;
    }
    sys_write(2, text, sizeof text - 1);
    abort();
}

COLD void sample_end_deferred(void) {
    for (void *block = sample_take_deferred(), *next; block != NULL; block = next) {
        memcpy(&next, block, sizeof next);
        if (!sample_end(block, MALLOW_END_FREED, NULL, NULL))
            break; /* freed twice: the list may lead back to itself */
    }
}

int sample_end(void *block, uint32_t kind, const void *moved_to, struct sample_thread *s) {
    return sample_end_inline(block, kind, moved_to, s);
}

COLD void sample_thread_flush(struct sample_thread *s) {
    while (s->guard.pendings > 0)
        sample_end(s->pending[--s->guard.pendings], MALLOW_END_FREED, NULL, NULL);
    if (inplace != NULL && attachment_is_late() && sample_lock(NULL)) {
        inplace->settle();
        sample_unlock(NULL);
    }
}

/* In a handler that interrupted our work, or where no sample_thread can be had. */
COLD void sample_end_pending(void *block, uint32_t kind, const void *moved_to) {
    struct sample_thread *s = (struct sample_thread *)((uintptr_t)own_sample_thread & image_alive);
    if (s == NULL)
        sample_end(block, kind, moved_to, NULL);
    else if (s->guard.pendings < PENDING_MOST)
        s->pending[s->guard.pendings++] = block;
    else
        sample_missed();
}

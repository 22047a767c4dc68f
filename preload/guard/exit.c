/*
 * The end of an image: what lies beside blocks that are never freed, and the wait in which the keeper searches for
 * leaks.
 *
 * As in scan/exit.c this runs after the program's atexit handlers and static destructors. The wait is for the keeper,
 * and not for mallow. It ends when the keeper answers; when it is gone, stopped or silent, as guard_wait and its beat
 * show; and after LONGEST_NS.
 */
#include "arch.h"
#include "base/exit_point.h"
#include "base/filter.h"
#include "guard/guard_slots.h"
#include "guard/report.h"
#include "sample/lock.h"
#include "sample/sample_log.h"

/* The keeper gives up before this. */
#define LONGEST_NS (20ull * 1000000000)

static void report_slack(void) {
    for (uint32_t i = 0; i < slots_count(); i++) {
        struct slot *slot = slot_at(i);
        if (!guard_owns((void *)slot->start) || slot->used != 1)
            continue;
        const uint8_t *damage = guard_damage(slot);
        if (damage != NULL)
            guard_report(MALLOW_ERROR_SLACK, damage, slot, slot->seen.tid, 0);
    }
}

/* Not inlined: where exit is not found, its frame is the border: above are the registers of the caller. */
NOINLINE static void wait_for_search(struct mallow_process *process) {
    uint64_t now = sys_tick_ns(), longest = now + LONGEST_NS, silence = now + GUARD_LONGEST_NS;
    uint32_t beat = __atomic_load_n(&guard_shared->beat, __ATOMIC_RELAXED), waits = MALLOW_EXIT_WAITS;
    exit_point_set(process, __builtin_frame_address(0));
    __atomic_store_n(&process->exit_state, waits, __ATOMIC_SEQ_CST);
    sys_futex_wake(&process->exit_state);
    while (__atomic_load_n(&process->exit_state, __ATOMIC_ACQUIRE) == waits &&
           guard_wait(&process->exit_state, waits, silence < longest ? silence : longest)) {
        uint32_t next = __atomic_load_n(&guard_shared->beat, __ATOMIC_RELAXED);
        if (next != beat)
            silence = sys_tick_ns() + GUARD_LONGEST_NS;
        beat = next;
    }
    /* The keeper may answer at this moment. */
    __atomic_compare_exchange_n(&process->exit_state, &waits, MALLOW_EXIT_GAVE_UP, 0, __ATOMIC_ACQ_REL,
                                __ATOMIC_RELAXED);
}

__attribute__((destructor)) static void image_exits(void) {
    struct mallow_process *process = target.process;
    if (image_alive == 0 || process == NULL || !guard_is_joined())
        return;
    if (!filter_is(FILTER_FORBIDS_SAMPLES) && lock_samples(NULL)) {
        report_slack();
        unlock_samples(NULL);
    }
    /* A forked child has blocks of its parent. */
    if ((target.control->flags & MALLOW_GUARD_LEAKS) == 0 || process->origin == MALLOW_ORIGIN_FORK)
        return;
    if (filter_is(FILTER_FORBIDS_WAITS)) {
        __atomic_store_n(&process->exit_state, MALLOW_EXIT_SANDBOXED, __ATOMIC_RELEASE);
        return;
    }
    /* Pointers that are in registers alone are to be on the stack. */
    __builtin_unwind_init();
    wait_for_search(process);
}

/*
 * A crash: a signal whose action is the default one, which ends the program.
 *
 * Nobody outside sees the registers and the stack of a process that a signal ends, unless it traces it. So a handler
 * takes the place of the default action. It comes once: the kernel gives the signal its default action back as the
 * handler begins (SA_RESETHAND). The handler takes no lock, allocates nothing, and waits for nobody but the keeper. It
 * then sends the signal once more, with all that the kernel said of it, and returns: the program ends by that signal,
 * at the same instruction, with the same core file.
 */
#include "guard/crash.h"
#include "arch.h"
#include "arch_signal.h"
#include "base/filter.h"
#include "guard/actions.h"
#include "guard/guard_slots.h"
#include "sample/sample_thread.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>

/*
 * The first one is handler.c's where pages are protected. --fail-fast ends the program by the last one: that is no
 * crash of its own.
 */
static const int crash_signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGABRT};
#define SIGNALS (sizeof crash_signals / sizeof *crash_signals)

/* Of this image, and not of a child that has its memory. */
static int is_reported(void) {
    return guard_is_joined() && (filter_is(FILTER_SEEN) || (uint32_t)sys_getpid() == target.pid);
}

void crash_report(int number, siginfo_t *info, void *context) {
    struct mallow_guard_crash *crash = &guard_shared->crash;
    uint32_t none = MALLOW_CRASH_NONE;
    if ((target.control->flags & MALLOW_GUARD_CRASHES) == 0 || !is_reported() ||
        !__atomic_compare_exchange_n(&crash->state, &none, MALLOW_CRASH_WRITTEN, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return;
    int is_sent = info->si_code <= 0;
    crash->tid = !filter_is(FILTER_SEEN)     ? (uint32_t)sys_gettid()
                 : own_sample_thread != NULL ? own_sample_thread->tid
                                             : 0;
    crash->signal = (uint32_t)number;
    crash->code = info->si_code;
    crash->sender = is_sent ? (uint32_t)info->si_pid : 0;
    crash->access = is_sent ? 0 : ARCH_FAULT_ACCESS(context);
    crash->address = is_sent ? 0 : (uint64_t)info->si_addr;
    crash->at_ns = guard_now_ns();
    memcpy(crash->registers, ARCH_INTERRUPTED_REGISTERS(context), sizeof crash->registers);
    __atomic_store_n(&crash->state, MALLOW_CRASH_ASKS, __ATOMIC_RELEASE);
    guard_wake();
    uint64_t until_ns = sys_tick_ns() + GUARD_LONGEST_NS;
    while (!filter_is(FILTER_FORBIDS_SAMPLES) &&
           __atomic_load_n(&crash->state, __ATOMIC_ACQUIRE) == MALLOW_CRASH_ASKS &&
           guard_wait(&crash->state, MALLOW_CRASH_ASKS, until_ns))
        ;
}

static void on_crash(int number, siginfo_t *info, void *context) {
    int saved = errno;
    crash_report(number, info, context);
    errno = saved;
    /* It is blocked until this returns. A filter may forbid the call: the instruction raises the signal again then. A
     * system call does not; where its filter forbids this one as well, that ends the program by the same signal. */
    if (!filter_is(FILTER_SEEN))
        SYS_CALL4(SYS_rt_tgsigqueueinfo, sys_getpid(), sys_gettid(), number, info);
    else if (info->si_code <= 0 || number == SIGSYS)
        SYS_CALL3(SYS_tgkill, sys_getpid(), sys_gettid(), number);
}

void crash_watch(void) {
    uint32_t flags = target.control->flags;
    size_t first = guard_protects != 0, end = (flags & MALLOW_GUARD_ABORT) != 0 ? SIGNALS - 1 : SIGNALS;
    if ((flags & MALLOW_GUARD_CRASHES) != 0 && !filter_is(FILTER_SEEN))
        actions_take_defaults(crash_signals + first, end - first, on_crash);
}

/*
 * Guarding without userfaultfd: pages of freed blocks, and those beside blocks, are protected, and a handler for
 * SIGSEGV answers. Only where the user allows it.
 *
 *     thread                         keeper
 *     access ──▶ handler: fault[n]
 *                waits           ──▶ reads the registers that the kernel saved, and the stack above
 *                                ◀── ANSWERED
 *                opens the page
 *     goes on ◀──
 *
 * The handler takes no lock and waits for nobody but the keeper, as guard_wait bounds it. What is no access to the
 * range goes to the handler that was there before. It runs on the thread's alternate stack where it has one.
 */
#include "arch.h"
#include "arch_signal.h"
#include "guard/actions.h"
#include "guard/crash.h"
#include "guard/guard_slots.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/* What the program has for SIGSEGV. */
static struct sigaction program;

/* The program's own: with the mask that it would have. */
static void pass_on(int number, siginfo_t *info, void *context) {
    struct sigaction other = program;
    int has_handler =
        (other.sa_flags & SA_SIGINFO) != 0 || (other.sa_handler != SIG_DFL && other.sa_handler != SIG_IGN);
    if (!has_handler) {
        /* The access comes again, and ends the program as if nobody had been here; what kill sent is sent again. */
        struct sigaction none = {.sa_handler = SIG_DFL};
        if (other.sa_handler == SIG_IGN && info->si_code <= 0)
            return;
        crash_report(number, info, context);
        SYS_CALL4(SYS_rt_sigaction, SIGSEGV, &none, NULL, 8);
        if (info->si_code <= 0)
            SYS_CALL3(SYS_tgkill, sys_getpid(), sys_gettid(), SIGSEGV);
        return;
    }
    sigset_t mask;
    sigemptyset(&mask);
    memcpy(&mask, ARCH_INTERRUPTED_MASK(context), 8); /* the kernel's are 64 bits */
    sigorset(&mask, &mask, &other.sa_mask);
    if ((other.sa_flags & SA_NODEFER) == 0)
        sigaddset(&mask, SIGSEGV);
    SYS_CALL4(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, 8);
    if ((other.sa_flags & SA_SIGINFO) != 0)
        other.sa_sigaction(number, info, context);
    else
        other.sa_handler(number);
}

/* An entry that is this thread's until it gives it back. Its number is another one each time, so that an answer that
 * comes late is none to the next one who asks. NULL: all are taken. */
static struct mallow_guard_fault *claim(uint32_t *number) {
    for (uint32_t i = 0; i < MALLOW_GUARD_FAULTS; i++) {
        struct mallow_guard_fault *fault = &guard_shared->fault[i];
        uint32_t old = __atomic_load_n(&fault->state, __ATOMIC_RELAXED);
        *number = (old | MALLOW_FAULT_STATE) + 1;
        if ((old & MALLOW_FAULT_STATE) == MALLOW_FAULT_NONE &&
            __atomic_compare_exchange_n(&fault->state, &old, *number | MALLOW_FAULT_WRITTEN, 0, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED))
            return fault;
    }
    return NULL;
}

/* Whether the keeper wants the program to end here. */
static int ask(uint64_t address, void *context) {
    struct mallow_guard_fault *fault = NULL;
    uint32_t number = 0;
    uint64_t until_ns = sys_tick_ns() + GUARD_LONGEST_NS;
    while (guard_is_joined() && (fault = claim(&number)) == NULL && sys_tick_ns() < until_ns)
        SYS_CALL1(SYS_sched_yield, 0);
    if (fault == NULL)
        return 0;
    fault->tid = (uint32_t)sys_gettid();
    fault->address = address;
    fault->registers = (uint64_t)ARCH_INTERRUPTED_REGISTERS(context);
    fault->write = (uint32_t)ARCH_FAULT_IS_WRITE(context);
    uint32_t asks = number | MALLOW_FAULT_ASKS;
    __atomic_store_n(&fault->state, asks, __ATOMIC_RELEASE);
    guard_wake();
    while (__atomic_load_n(&fault->state, __ATOMIC_ACQUIRE) == asks && guard_wait(&fault->state, asks, until_ns))
        ;
    return __atomic_exchange_n(&fault->state, number, __ATOMIC_ACQ_REL) == (number | MALLOW_FAULT_ENDS);
}

static void on_fault(int number, siginfo_t *info, void *context) {
    uint64_t address = (uint64_t)info->si_addr;
    if (info->si_code != SEGV_ACCERR || !guard_owns((void *)address)) {
        pass_on(number, info, context);
        return;
    }
    int saved = errno;
    if (ask(address, context)) /* blocked here: it comes with the registers of the access */
        SYS_CALL3(SYS_tgkill, sys_getpid(), sys_gettid(), SIGABRT);
    else
        SYS_CALL3(SYS_mprotect, address & ~(ARCH_PAGE - 1), ARCH_PAGE, PROT_READ | PROT_WRITE);
    errno = saved;
}

int guard_handle(void) {
    struct sigaction now, ours = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    if (actions_set(SIGSEGV, NULL, &now) != 0)
        return 0;
    if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_fault)
        return 1;
    program = now;
    sigfillset(&ours.sa_mask);
    actions_hide(SIGSEGV, on_fault, &program);
    return actions_set(SIGSEGV, &ours, NULL) == 0;
}

int guard_protect(void) {
    guard_protects = guard_handle();
    return guard_protects;
}

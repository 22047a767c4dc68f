/* Part of the process file, and handing a userfaultfd to the keeper. */
#include "base/filter.h"
#include "guard/calls.h"
#include "guard/crash.h"
#include "guard/guard_slots.h"
#include "guard/guarding.h"
#include "guard/mismatch.h"
#include "guard/report.h"
#include "sample/sample_log.h"
#include "sample/sample_thread.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static uint64_t table_offset(uint64_t from) {
    return (from + sizeof(struct mallow_guard) + ARCH_PAGE - 1) & ~(ARCH_PAGE - 1);
}

uint64_t guard_layout(uint64_t from, uint32_t max_slots) {
    uint64_t table = (uint64_t)max_slots * sizeof(struct mallow_guarded);
    return table_offset(from) + ((table + TABLE_PIECE - 1) & ~(TABLE_PIECE - 1));
}

int guard_is_due(void) {
    uint32_t keeper = __atomic_load_n(&target.control->guard_keeper, __ATOMIC_ACQUIRE);
    const struct sample_thread *s = own_sample_thread;
    /* A handler that interrupted the work on a sample may not wait for its lock. */
    return keeper != 0 && (!guard_has_part() || guard_shared->keeper != keeper) && (s == NULL || s->guard.inside == 0);
}

/* The part in the process file, which begins anew. 0: there is no memory. With sample_lock held. */
static int open_part(void) {
    struct mallow_sampling *sampling = sample_log;
    uint64_t from = (sampling->stacks_offset + sampling->stacks_bytes + ARCH_PAGE - 1) & ~(ARCH_PAGE - 1);
    char *file = (char *)target.process;
    struct mallow_guard *shared = (struct mallow_guard *)(file + from);
    if (sampling->guard == 0 && sys_populate(shared, sizeof *shared) != 0)
        return 0;
    shared->guarded_offset = table_offset(from);
    guard_table = (struct mallow_guarded *)(file + shared->guarded_offset);
    guard_shared = shared;
    shared->state = MALLOW_GUARD_NOT;
    shared->operators = mismatch_operators;
    if (guard_range.bytes == 0 && !guard_reserve()) {
        shared->state = MALLOW_GUARD_NO_ADDRESSES;
    } else {
        guard_begin();
        shared->start = guard_range.start;
        shared->bytes = guard_range.bytes;
        shared->slots = (uint64_t)slots;
        shared->slots_bytes = slots_bytes();
    }
    __atomic_store_n(&sampling->guard, from, __ATOMIC_RELEASE);
    return 1;
}

/* Filters of system calls that this process runs under; 0 where the kernel does not say. */
static uint32_t filters(void) {
    static const char name[] = "Seccomp_filters:";
    char text[4096];
    long fd = sys_open("/proc/self/status", O_RDONLY | O_CLOEXEC, 0), length = 0;
    if (fd >= 0) {
        length = sys_read((int)fd, text, sizeof text - 1);
        sys_close((int)fd);
    }
    text[length > 0 ? length : 0] = 0;
    const char *found = strstr(text, name);
    if (found == NULL)
        return 0;
    uint32_t number = 0;
    found += sizeof name - 1;
    found += strspn(found, " \t");
    for (; *found >= '0' && *found <= '9'; found++)
        number = 10 * number + (uint32_t)(*found - '0');
    return number;
}

static long userfaultfd(void) {
    return SYS_CALL1(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
}

/* With sample_lock held. */
static void offer(struct mallow_guard *shared, uint32_t keeper) {
    if (filter_is(FILTER_SEEN) || filters() > target.control->guard_filters) {
        shared->state = MALLOW_GUARD_FILTERED;
        return;
    }
    long descriptor = guard_protects ? -EPERM : userfaultfd();
    shared->descriptor = (int32_t)(descriptor < 0 ? -descriptor : descriptor);
    if (descriptor < 0 && (target.control->flags & MALLOW_GUARD_HANDLER) != 0 &&
        (guard_protects || !guard_was_used()) && guard_protect()) {
        __atomic_store_n(&shared->state, MALLOW_GUARD_PROTECTS, __ATOMIC_RELEASE);
        return;
    }
    if (descriptor >= 0) {
        /* Yama: the keeper is no ancestor. Elsewhere this fails, and nothing depends on it. */
        SYS_CALL3(SYS_prctl, PR_SET_PTRACER, keeper, 0);
        guard_ask_first();
    }
    __atomic_store_n(&shared->state, descriptor < 0 ? MALLOW_GUARD_REFUSED : MALLOW_GUARD_OFFERED, __ATOMIC_RELEASE);
}

/*
 * The keeper takes the descriptor out of this process, registers the range, and fills what is live of a parent's; then
 * this process closes its own. It waits for that, but not for a keeper that is gone.
 */
void guard_join(void) {
    uint32_t keeper = target.control->guard_keeper;
    if (keeper == 0 || !guard_is_due() || sample_log == NULL || !sample_lock(NULL))
        return;
    /* Before there is a guarded block: of mallow run it is sampling's until now. */
    policy_install(guarding->policy());
    calls_check();
    int is_open = open_part();
    struct mallow_guard *shared = guard_shared;
    if (is_open && shared->state == MALLOW_GUARD_NOT)
        offer(shared, keeper);
    /* The keeper changes it as soon as it knows of it. */
    uint32_t was_offered = is_open ? shared->state : MALLOW_GUARD_NOT;
    sample_unlock(NULL);
    if (!is_open)
        return;
    /* What comes before this is of an earlier keeper, or of none. */
    __atomic_store_n(&shared->keeper, keeper, __ATOMIC_RELEASE);
    doorbell_ring();
    int32_t descriptor = was_offered == MALLOW_GUARD_OFFERED ? shared->descriptor : -1;
    if (was_offered != MALLOW_GUARD_OFFERED && was_offered != MALLOW_GUARD_PROTECTS)
        return;
    uint64_t until_ns = sys_tick_ns() + GUARD_LONGEST_NS;
    while (__atomic_load_n(&shared->state, __ATOMIC_ACQUIRE) == was_offered &&
           guard_wait(&shared->state, was_offered, until_ns))
        ;
    __atomic_compare_exchange_n(&shared->state, &was_offered, MALLOW_GUARD_GIVEN_UP, 0, __ATOMIC_ACQ_REL,
                                __ATOMIC_RELAXED);
    if (descriptor >= 0)
        sys_close(descriptor);
    if (guard_is_joined())
        crash_watch();
}

/* Part of the process file, and handing a userfaultfd to the keeper. */
#include "base/filter.h"
#include "guard/guard_slots.h"
#include "guard/guarding.h"
#include "guard/report.h"
#include "sample/sample_log.h"
#include "sample/sample_thread.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define WAIT_MS 20

int guard_wait(uint32_t *word, uint32_t expected, uint64_t until_ns) {
    uint32_t keeper = __atomic_load_n(&target.control->guard_keeper, __ATOMIC_RELAXED);
    if (keeper == 0 || sys_tick_ns() >= until_ns)
        return 0;
    if (!sys_futex_wait(word, expected, WAIT_MS) || filter_is(FILTER_SEEN))
        return 1;
    char path[64], state;
    uint64_t began;
    memcpy(text_decimal(path + text_copy(path, "/proc/", sizeof path), keeper), "/stat", 6);
    return !sys_thread_stat(path, &state, &began) || (state != 'T' && state != 't' && state != 'Z' && state != 'X');
}

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
    if (guard_range.bytes == 0 && !guard_reserve()) {
        shared->state = MALLOW_GUARD_NO_ADDRESSES;
    } else {
        guard_begin();
        shared->start = guard_range.start;
        shared->bytes = guard_range.bytes;
        shared->slots = (uint64_t)slots;
        shared->slots_bytes = slots_bytes();
        guard_ask_first();
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
    return found != NULL ? (uint32_t)strtoul(found + sizeof name - 1, NULL, 10) : 0;
}

static long userfaultfd(void) {
    return SYS_CALL1(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
}

static void offer(struct mallow_guard *shared, uint32_t keeper) {
    if (filter_is(FILTER_SEEN) || filters() > target.control->guard_filters) {
        shared->state = MALLOW_GUARD_FILTERED;
        return;
    }
    long descriptor = userfaultfd();
    shared->descriptor = (int32_t)(descriptor < 0 ? -descriptor : descriptor);
    /* Yama: the keeper is no ancestor. Elsewhere this fails, and nothing depends on it. */
    if (descriptor >= 0)
        SYS_CALL3(SYS_prctl, PR_SET_PTRACER, keeper, 0);
    __atomic_store_n(&shared->state, descriptor < 0 ? MALLOW_GUARD_REFUSED : MALLOW_GUARD_OFFERED, __ATOMIC_RELEASE);
}

/*
 * The keeper takes the descriptor out of this process, registers the range, and fills what is live of a parent's; then this process
 * closes its own. It waits for that, but not for a keeper that is gone.
 */
void guard_join(void) {
    uint32_t keeper = target.control->guard_keeper;
    if (keeper == 0 || !guard_is_due() || sample_log == NULL || !sample_lock(NULL))
        return;
    /* Before there is a guarded block: of mallow run it is sampling's until now. */
    policy_install(guarding->policy());
    int is_open = open_part();
    sample_unlock(NULL);
    struct mallow_guard *shared = guard_shared;
    if (!is_open)
        return;
    if (shared->state == MALLOW_GUARD_NOT)
        offer(shared, keeper);
    /* What comes before this is of an earlier keeper, or of none. */
    __atomic_store_n(&shared->keeper, keeper, __ATOMIC_RELEASE);
    doorbell_ring();
    if (shared->state != MALLOW_GUARD_OFFERED && shared->state != MALLOW_GUARD_TAKEN)
        return;
    uint64_t until_ns = sys_tick_ns() + GUARD_LONGEST_NS;
    while (__atomic_load_n(&shared->state, __ATOMIC_ACQUIRE) == MALLOW_GUARD_OFFERED &&
           guard_wait(&shared->state, MALLOW_GUARD_OFFERED, until_ns))
        ;
    uint32_t offered = MALLOW_GUARD_OFFERED;
    __atomic_compare_exchange_n(&shared->state, &offered, MALLOW_GUARD_GIVEN_UP, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    sys_close(shared->descriptor);
}

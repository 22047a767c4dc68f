/* Part of the process file, and handing a userfaultfd to the keeper. */
#include "base/filter.h"
#include "guard/guard_slots.h"
#include "guard/guarding.h"
#include "guard/report.h"
#include "sample/sample_log.h"

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

int guard_map(struct mallow_process *process, struct mallow_sampling *sampling, uint64_t from) {
    struct mallow_guard *guard = (struct mallow_guard *)((char *)process + from);
    if (sys_populate(guard, sizeof *guard) != 0)
        return 0;
    guard->guarded_offset = table_offset(from);
    sampling->guard = from;
    return 1;
}

void guard_opened(void) {
    const struct mallow_sampling *sampling = sample_log;
    char *file = (char *)target.process;
    struct mallow_guard *shared = (struct mallow_guard *)(file + sampling->guard);
    guard_table = (struct mallow_guarded *)(file + shared->guarded_offset);
    guard_shared = shared;
    if (guard_range.bytes == 0 && !guard_reserve()) {
        shared->state = MALLOW_GUARD_NO_ADDRESSES;
        return;
    }
    guard_begin();
    shared->start = guard_range.start;
    shared->bytes = guard_range.bytes;
    guard_ask_first();
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

/*
 * The keeper takes the descriptor out of this process, registers the range, and fills what is live of a parent's; then this process
 * closes its own. It waits for that, but not for a keeper that is gone.
 */
void guard_join(void) {
    struct mallow_guard *shared = guard_shared;
    const struct mallow_control *control = target.control;
    if (shared == NULL || shared->state != MALLOW_GUARD_NOT || control->guard_keeper == 0)
        return;
    if (filter_is(FILTER_SEEN) || filters() > control->guard_filters) {
        shared->state = MALLOW_GUARD_FILTERED;
        return;
    }
    long descriptor = userfaultfd();
    if (descriptor < 0) {
        shared->descriptor = (int32_t)-descriptor;
        shared->state = MALLOW_GUARD_REFUSED;
        return;
    }
    /* Yama: the keeper is no ancestor. Elsewhere this fails, and nothing depends on it. */
    SYS_CALL3(SYS_prctl, PR_SET_PTRACER, control->guard_keeper, 0);
    shared->descriptor = (int32_t)descriptor;
    __atomic_store_n(&shared->state, MALLOW_GUARD_OFFERED, __ATOMIC_SEQ_CST);
    doorbell_ring();
    uint64_t until_ns = sys_tick_ns() + GUARD_LONGEST_NS;
    while (__atomic_load_n(&shared->state, __ATOMIC_ACQUIRE) == MALLOW_GUARD_OFFERED &&
           guard_wait(&shared->state, MALLOW_GUARD_OFFERED, until_ns))
        ;
    uint32_t offered = MALLOW_GUARD_OFFERED;
    __atomic_compare_exchange_n(&shared->state, &offered, MALLOW_GUARD_GIVEN_UP, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    sys_close((int)descriptor);
}

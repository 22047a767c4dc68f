/* Findings of this process's own. */
#include "guard/report.h"
#include "guard/foreign.h"
#include "sample/sample_log.h"

#include <stdlib.h>
#include <string.h>

/* It must stay readable while it is copied. */
static int is_pattern_area(const void *address, const struct slot *slot) {
    uint64_t end = slot->start + ((1ull << slot->size) >> 1);
    return (uint64_t)address >= slot->start && (uint64_t)address < end;
}

/* The next finding, which publish() shows; NULL: there is no file. */
static struct mallow_guard_finding *begin_finding(enum mallow_guard_error kind, uint64_t address,
                                                  const struct slot *slot, uint32_t tid, uint32_t stack) {
    if (!guard_has_part())
        return NULL;
    struct mallow_guard_finding *finding = &guard_shared->finding[guard_shared->findings % MALLOW_GUARD_FINDINGS];
    *finding = (struct mallow_guard_finding){.address = address,
                                             .at_ns = guard_now_ns(),
                                             .kind = kind,
                                             .tid = tid,
                                             .stack = stack,
                                             .slot = slot != NULL ? slot->index : UINT32_MAX};
    return finding;
}

static void publish(void) {
    __atomic_store_n(&guard_shared->findings, guard_shared->findings + 1, __ATOMIC_RELEASE);
    guard_wake();
}

void guard_report(enum mallow_guard_error kind, const void *address, const struct slot *slot, uint32_t tid,
                  uint32_t stack) {
    struct mallow_guard_finding *finding = begin_finding(kind, (uint64_t)address, slot, tid, stack);
    if (finding == NULL)
        return;
    if (kind == MALLOW_ERROR_SLACK && slot != NULL && is_pattern_area(address, slot)) {
        uint64_t room = ARCH_PAGE - (uint64_t)address % ARCH_PAGE;
        memcpy(finding->bytes, address, room < sizeof finding->bytes ? room : sizeof finding->bytes);
    } else if (kind == MALLOW_ERROR_FOREIGN) {
        uint64_t sp = (uint64_t)__builtin_frame_address(0);
        memcpy(finding->bytes, &sp, sizeof sp);
        finding->bytes[sizeof sp] = (uint8_t)foreign_is(address);
    }
    publish();
}

void report_mismatch(const struct slot *slot, struct freeing how, uint32_t tid, uint32_t stack) {
    struct mallow_guard_finding *finding = begin_finding(MALLOW_ERROR_MISMATCH, slot->seen.address, slot, tid, stack);
    if (finding == NULL)
        return;
    mismatch_describe(slot, how, finding->bytes);
    publish();
}

void guard_reported(void) {
    if ((target.control->flags & MALLOW_GUARD_ABORT) != 0)
        abort();
}

/* Stubs of patched functions, with a policy and an allocator of the test's own. */
#include "arch.h"
#include "base/entries.h"
#include "base/target.h"
#include "hook/stubs.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

struct policy policy;
struct allocator real;
uintptr_t image_alive = UINTPTR_MAX;
/* No thread counts: all is reported. */
_Thread_local struct mallow_thread *own_counters;

static int events;

static void count_call(const struct hooked_call *call) {
    CHECK(call->block != NULL);
    events++;
}

static void count_beginning(struct hooked_call *call) {
    CHECK(call->old != NULL);
    events++;
}

static const struct hooked_policy recorder = {
    .allocated = count_call, .reallocating = count_beginning, .reallocated = count_call};

static uint64_t ending_realloc(uint64_t block, uint64_t size) {
    policy.hooked = NULL;
    return (uint64_t)realloc((void *)block, size);
}

/* Another thread ends the recording while the allocator runs. */
TEST(a_recording_may_end_while_a_block_is_reallocated) {
    typedef uint64_t stub_function(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, const struct mallow_hook *);
    uint64_t stubs[MALLOW_STUB_COUNT];
    stubs_list(stubs);
    policy.hooked = &recorder;
    struct mallow_hook hook = {.original = (uint64_t)ending_realloc};
    void *block = malloc(10);
    CHECK(((stub_function *)stubs[MALLOW_STUB_REALLOCATE])((uint64_t)block, 100, 0, 0, 0, &hook) != 0);
    CHECK(events == 2);
}

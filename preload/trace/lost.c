/*
 * A traced process that can be recorded no more, because mallow is stopped or there is no memory: its events are
 * counted, so that the report says how many are missing. Each costs an addition, and no stack is walked.
 */
#include "base/target.h"
#include "trace/trace.h"

static inline void lose(uint64_t events) {
    struct mallow_thread *mine = thread_block();
    struct mallow_process *process = target.process;
    if (mine != NULL)
        mine->lost += events;
    else if (process != NULL)
        __atomic_fetch_add(&process->unrecorded, events, __ATOMIC_RELAXED);
}

static inline void *allocated(void *block) {
    if (block != NULL)
        lose(1);
    return block;
}

static void *lost_malloc_done(void *block, size_t size) {
    (void)size;
    return allocated(block);
}

static void *lost_calloc_done(void *block, size_t count, size_t size) {
    (void)count;
    (void)size;
    return allocated(block);
}

static void lost_free(void *block) {
    lose(1);
    real.free(block);
}

/* block NULL: it failed, or size is 0 and the old block was freed. */
static inline uint64_t reallocation_events(const void *old, const void *block, size_t size) {
    return (block != NULL) + (old != NULL && (block != NULL || size == 0));
}

static void *lost_realloc(void *old, size_t size) {
    void *block = real.realloc(old, size);
    lose(reallocation_events(old, block, size));
    return block;
}

static void *lost_reallocarray(void *old, size_t count, size_t size) {
    return lost_realloc(old, count * size);
}

static int lost_posix_memalign(void **result, size_t alignment, size_t size) {
    int error = real.posix_memalign(result, alignment, size);
    if (error == 0)
        allocated(*result);
    return error;
}

#define X(name, result, parameters, arguments)                                                                         \
    static result lost_##name parameters {                                                                             \
        return allocated(real.name arguments);                                                                         \
    }
MALLOW_ALIGNED(X)
#undef X

static void lost_hooked(const struct hooked_call *call) {
    (void)call;
    lose(1);
}

static void lost_hooked_reallocated(const struct hooked_call *call) {
    lose(reallocation_events(call->old, call->block, call->size));
}

static const struct hooked_policy lost_hooked_policy = {
    .allocated = lost_hooked, .freed = lost_hooked, .reallocated = lost_hooked_reallocated};

static const struct policy lost_policy = {.malloc_done = lost_malloc_done,
                                          .calloc_done = lost_calloc_done,
                                          .free = lost_free,
                                          .hooked = &lost_hooked_policy,
#define X(name, result, parameters, arguments) .name = lost_##name,
                                          MALLOW_OTHER(X)
#undef X
};

void lost_begin(void) {
    policy_install(&lost_policy);
}

/*
 * A traced process that can be recorded no more, because mallow is stopped or there is no memory: its events are counted,
 * so that the report says how many are missing. Each costs an addition, and no stack is walked.
 */
#include "base/target.h"
#include "trace/trace.h"

#include <errno.h>

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

static void *lost_realloc(void *old, size_t size) {
    void *block = real.realloc(old, size);
    lose((block != NULL) + (old != NULL && (block != NULL || size == 0)));
    return block;
}

/* See count_reallocarray. */
static void *lost_reallocarray(void *old, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return lost_realloc(old, bytes);
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

static const struct policy lost_policy = {.malloc_done = lost_malloc_done,
                                          .calloc_done = lost_calloc_done,
                                          .free = lost_free,
#define X(name, result, parameters, arguments) .name = lost_##name,
                                          MALLOW_OTHER(X)
#undef X
};

void lost_begin(void) {
    policy_install(&lost_policy);
}

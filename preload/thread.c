/*
 * Thread blocks: taking one at a thread's first event, giving it back at its end.
 *
 * A block outlives its owner: the next thread without one takes it over and its sums go on. So nothing is folded or
 * copied at a thread's end, and the blocks in use are as many as the threads that lived at one time.
 */
#include "filter.h"
#include "lock.h"
#include "target.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>

_Thread_local struct mallow_thread *own_block __attribute__((tls_model("initial-exec")));
_Thread_local struct mallow_thread *own_counters __attribute__((tls_model("initial-exec")));
_Thread_local struct tracer *own_tracer __attribute__((tls_model("initial-exec")));

/* Set while this thread is inside thread_enter: what the C library allocates for us there is not the target's. */
static _Thread_local char entering __attribute__((tls_model("initial-exec")));
/* How often the key's destructor has run for this thread. */
static _Thread_local unsigned char destructions __attribute__((tls_model("initial-exec")));

static pthread_key_t key;
static int key_ready;

/* Where the C library keeps a thread's id in its control block; 0 where that is not known. */
static uint32_t tid_offset;

/* A filter of system calls may allow a thread what its C library needs and nothing else: gettid is not needed. */
uint32_t thread_id(void) {
    if (tid_offset == 0)
        return (uint32_t)sys_gettid();
    return *(const uint32_t *)((const char *)pthread_self() + tid_offset);
}

/* glibc describes its control block to debuggers: size in bits, number of elements, offset. */
static void find_thread_id(void) {
    const uint32_t *field = dlsym(RTLD_DEFAULT, "_thread_db_pthread_tid");
    if (field == NULL || field[0] != 32 || field[1] != 1 || field[2] >= 4096)
        return;
    tid_offset = field[2];
    if (thread_id() != (uint32_t)sys_gettid())
        tid_offset = 0;
}

/*
 * Other keys' destructors may allocate too, so ours asks to be called again until the C library's last round. What
 * allocates even later takes a block anew; mallow sees that its owner is gone and frees it.
 */
static void thread_exit(void *block) {
    if (++destructions < PTHREAD_DESTRUCTOR_ITERATIONS) {
        pthread_setspecific(key, block);
        return;
    }
    struct mallow_thread *mine = thread_block();
    if (mine == NULL)
        return;
    own_block = own_counters = NULL;
    own_tracer = NULL;
    __atomic_store_n(&mine->owner, MALLOW_THREAD_FREE, __ATOMIC_RELEASE);
}

void thread_setup(void) {
    find_thread_id();
    key_ready = pthread_key_create(&key, thread_exit) == 0;
}

void thread_forked(void) {
    own_block = own_counters = NULL;
    own_tracer = NULL;
    entering = 0;
    /* A child made by a bare clone has its parent's id in its control block. */
    if (tid_offset != 0 && filter_is_none() && thread_id() != (uint32_t)sys_gettid())
        tid_offset = 0;
}

/* Invariant: a block is written by the thread that moved owner from FREE to OWNED, and by no other until FREE again. */
static struct mallow_thread *block_reuse(struct mallow_process *process) {
    uint32_t used = __atomic_load_n(&process->threads, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < used && i < process->max_threads; i++) {
        uint32_t free_block = MALLOW_THREAD_FREE;
        struct mallow_thread *block = &target.threads[i];
        if (__atomic_load_n(&block->owner, __ATOMIC_RELAXED) == MALLOW_THREAD_FREE &&
            __atomic_compare_exchange_n(&block->owner, &free_block, MALLOW_THREAD_OWNED, 0, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED))
            return block;
    }
    return NULL;
}

/* Call with target_lock held. */
static struct mallow_thread *block_new(struct mallow_process *process) {
    uint32_t index = process->threads;
    if (index >= process->max_threads)
        return NULL;
    struct mallow_thread *block = &target.threads[index];
    if (sys_populate(block, sizeof *block) != 0)
        return NULL;
    if (process->mode == MALLOW_MODE_TRACE && sys_populate(ring_start(index), 8 * ring_words(process, index)) != 0)
        return NULL;
    block->owner = MALLOW_THREAD_OWNED;
    __atomic_store_n(&process->threads, index + 1, __ATOMIC_RELEASE);
    return block;
}

COLD struct mallow_thread *thread_enter(void) {
    if (entering || target.control == NULL)
        return NULL;
    uint64_t mask = sys_block_signals();
    entering = 1;
    int saved_errno = errno;
    if (image_alive == 0)
        target_forked();
    lock_acquire(&target_lock);
    struct mallow_thread *block = NULL;
    if (target.process != NULL || process_open() == 0) {
        block = block_reuse(target.process);
        if (block == NULL)
            block = block_new(target.process);
        if (block == NULL)
            __atomic_fetch_add(&target.process->unrecorded, 1, __ATOMIC_RELAXED);
    }
    if (block != NULL) {
        block->tid = thread_id();
        own_block = block;
        image_alive = UINTPTR_MAX;
    }
    lock_release(&target_lock);
    if (block != NULL && key_ready && destructions < PTHREAD_DESTRUCTOR_ITERATIONS)
        pthread_setspecific(key, block);
    errno = saved_errno;
    entering = 0;
    sys_restore_signals(mask);
    return block;
}

/*
 * Thread blocks: taking one at a thread's first event, giving it back at its end.
 *
 * A block outlives its owner: the next thread without one takes it over and its sums go on. So nothing is folded or
 * copied at a thread's end, and the blocks in use are as many as the threads that lived at one time.
 */
#include "base/backoff.h"
#include "base/entries.h"
#include "base/filter.h"
#include "base/lock.h"
#include "base/target.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>

_Thread_local struct mallow_thread *own_block __attribute__((tls_model("initial-exec")));
_Thread_local struct mallow_thread *own_counters __attribute__((tls_model("initial-exec")));

/* Set while this thread is inside thread_enter: what the C library allocates for us there is not the target's. */
static _Thread_local char entering __attribute__((tls_model("initial-exec")));
/* How often the key's destructor has run for this thread. */
static _Thread_local unsigned char destructions __attribute__((tls_model("initial-exec")));

/* A thread that found no room asks again after a while, and then after twice the time: at each event it would cost six
 * system calls. */
static _Thread_local struct backoff refused __attribute__((tls_model("initial-exec")));

/* NULL in a program without libpthread, which has them before glibc 2.34. Threads that come with a plugin there are
 * like those that never say that they end: mallow sees it. */
#pragma weak pthread_key_create
#pragma weak pthread_setspecific
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
void thread_find_id(void) {
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
static void thread_exit(void *value) {
    if (++destructions < PTHREAD_DESTRUCTOR_ITERATIONS) {
        pthread_setspecific(key, value);
        return;
    }
    struct mallow_thread *mine = thread_block();
    own_block = own_counters = NULL;
    if (recording->thread_end != NULL)
        recording->thread_end();
    if (mine != NULL)
        __atomic_store_n(&mine->owner, MALLOW_THREAD_FREE, __ATOMIC_RELEASE);
}

void thread_setup(void) {
    static int done;
    if (__atomic_exchange_n(&done, 1, __ATOMIC_RELAXED))
        return;
    int created = pthread_key_create != NULL && pthread_key_create(&key, thread_exit) == 0;
    __atomic_store_n(&key_ready, created, __ATOMIC_RELEASE);
}

int thread_watch_end(void) {
    if (destructions >= PTHREAD_DESTRUCTOR_ITERATIONS)
        return 0;
    if (__atomic_load_n(&key_ready, __ATOMIC_ACQUIRE))
        pthread_setspecific(key, &key);
    return 1;
}

void target_forked(void) {
    target_lock = 0;
    own_block = own_counters = NULL;
    entering = 0;
    refused = (struct backoff){0};
    /* A child made by a bare clone has its parent's id in its control block. */
    if (tid_offset != 0 && !filter_is(FILTER_SEEN) && thread_id() != (uint32_t)sys_gettid())
        tid_offset = 0;
    if (recording->forked != NULL)
        recording->forked();
    target.process = NULL;
    image_alive = 0;
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

/* Call with target_lock held. Nobody reads the ring of a new block before it has a head. */
static struct mallow_thread *block_new(struct mallow_process *process) {
    uint32_t index = process->threads;
    if (index >= process->max_threads)
        return NULL;
    struct mallow_thread *block = &target.threads[index];
    if (sys_populate(block, sizeof *block) != 0)
        return NULL;
    block->owner = MALLOW_THREAD_OWNED;
    __atomic_store_n(&process->threads, index + 1, __ATOMIC_RELEASE);
    return block;
}

COLD int thread_is_refused(void) {
    if (entering || image_alive == 0 || !backoff_waits(&refused))
        return 0;
    __atomic_fetch_add(&target.process->unrecorded, 1, __ATOMIC_RELAXED);
    return 1;
}

COLD struct mallow_thread *thread_enter(void) {
    if (entering || target.control == NULL || thread_is_refused())
        return NULL;
    uint64_t mask = sys_block_signals();
    entering = 1;
    int saved_errno = errno;
    if (image_alive == 0)
        target_forked();
    lock_acquire(&target_lock);
    struct mallow_thread *block = NULL;
    if (target.process != NULL || process_open() == 0) {
        if ((block = block_reuse(target.process)) != NULL || (block = block_new(target.process)) != NULL)
            block->tid = thread_id();
    }
    lock_release(&target_lock);
    /* What takes longer needs no lock: threads that begin at once need not wait for each other. */
    if (block != NULL && recording->thread_start != NULL && !recording->thread_start(block)) {
        __atomic_store_n(&block->owner, MALLOW_THREAD_FREE, __ATOMIC_RELEASE);
        block = NULL;
    }
    if (block != NULL) {
        refused = (struct backoff){0};
        own_block = block;
        image_alive = UINTPTR_MAX;
        thread_watch_end();
    } else if (target.process != NULL) {
        __atomic_fetch_add(&target.process->unrecorded, 1, __ATOMIC_RELAXED);
        backoff_refused(&refused);
    }
    errno = saved_errno;
    entering = 0;
    sys_restore_signals(mask);
    return block;
}

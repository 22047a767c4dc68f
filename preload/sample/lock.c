/* Waiting for the lock of samples, and going on without it. */
#include "sample/lock.h"
#include "sample/sample_log.h"

/* One second: a thread that holds the lock was stopped. Then nobody waits for it, but for a moment once a second: what
 * is picked is served by the underlying allocator, and frees are deferred, until it goes on. */
#define LOCK_TRIES 50u
#define STUCK_NS   1000000000ull

uint32_t sample_lock_word, sample_deferred;
static uint64_t stuck_ns;                                     /* when somebody waited for the lock in vain; 0: not so */
static struct deferred { struct deferred *next; } * deferred; /* deferred frees: a list through the blocks */
static uint32_t broken;                                       /* left by longjmp: nobody gives the lock back any more */
static int forking;                                           /* the lock is held for the sake of a child */

void lock_samples_abandoned(void) {
    __atomic_store_n(&broken, 1, __ATOMIC_RELAXED);
    sample_over(MALLOW_OVER_LEFT);
}

COLD int lock_samples_slow(uint32_t *holds) {
    uint64_t since = __atomic_load_n(&stuck_ns, __ATOMIC_RELAXED), now = sys_tick_ns();
    if (!__atomic_load_n(&broken, __ATOMIC_RELAXED) && (since == 0 || now - since > STUCK_NS) &&
        lock_quick_wait(&sample_lock_word, since == 0 ? LOCK_TRIES : 0)) {
        __atomic_store_n(&stuck_ns, 0, __ATOMIC_RELAXED);
        return 1;
    }
    if (holds != NULL)
        *holds = 0;
    if (since == 0 || now - since > STUCK_NS)
        __atomic_store_n(&stuck_ns, sys_tick_ns(), __ATOMIC_RELAXED);
    return 0;
}

void lock_samples_fork_begins(int holds) {
    if (!holds) /* a handler that forks inside of our work: the child goes without */
        forking = lock_samples(NULL);
}

void lock_samples_fork_ended(void) {
    if (forking) {
        forking = 0;
        unlock_samples(NULL);
    }
}

void lock_samples_forked(void) {
    if (sample_lock_word != 0 && !forking)
        lock_samples_abandoned(); /* a copy of what another thread was changing */
    sample_lock_word = broken;
    forking = 0;
}

void lock_samples_left(void) {
    sample_lock_word = broken = 0;
    stuck_ns = 0;
    __atomic_store_n(&sample_is_over, 0, __ATOMIC_RELAXED);
}

COLD void sample_defer(void *block) {
    struct deferred *first = block;
    first->next = __atomic_load_n(&deferred, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&deferred, &first->next, first, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
    __atomic_store_n(&sample_deferred, 1, __ATOMIC_RELEASE);
}

COLD void *sample_take_deferred(void) {
    __atomic_store_n(&sample_deferred, 0, __ATOMIC_RELAXED);
    return __atomic_exchange_n(&deferred, NULL, __ATOMIC_ACQUIRE);
}

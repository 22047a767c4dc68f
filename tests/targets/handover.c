/*
 * handover HOW WORK THREADS ROUNDS: threads that hand blocks over, and what was truly live at the most.
 *
 * HOW a thread gets its turn: mutex, condition, pipe, futex, spin, eventfd, semaphore; in turn 0, 1, 2, …, 0, …
 * WORK is what it does in its turn:
 *   small, page, mapped  frees the block of the one before it, and allocates one of 1,000 B, 4,000 B, 2 MB
 *   own, large           allocates one of 1,000 B, 300 kB, and frees it
 *   list                 frees the 64 blocks of the one before it, and allocates 64
 *   resize               reallocs the one block to another size
 * or HOW needs no turns, and WORK is the size of the blocks:
 *   join                 a thread allocates, ends, and the one that joined it frees
 *   pool                 workers take requests from a queue; whoever asked waits and frees the answer
 *   batches              one half produces batches of 32 blocks through a queue of 4, the other half frees them
 *   stealing             each has a list of its own, and takes from the next one's when it is empty
 *   swap                 each puts its block into a cell, without a lock, and frees the one that was there
 *   capped               all allocate and free lists at once, and never have more than a certain number of blocks
 *   lists, pairs, idle   the same without a bound; pairs of malloc and free; nothing
 *
 * Prints the highest number of bytes that were live, the largest block, and how many threads there were.
 */
#include "target.h"

#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

enum { THREADS = 64, LIST = 64, BATCH = 32, DEEP = 4 };

static long threads, rounds;
static size_t block_size;
static const char *how, *work;

/* ---- what is live, by the program's own count: after malloc, before free ---- */

static _Alignas(64) atomic_long live;
static _Alignas(64) atomic_long peak;
static _Alignas(64) atomic_long largest;

static void raise_to(atomic_long *most, long value) {
    long seen = atomic_load(most);
    while (value > seen && !atomic_compare_exchange_weak(most, &seen, value)) {
    }
}

static void count(long bytes) {
    raise_to(&peak, atomic_fetch_add(&live, bytes) + bytes);
}

static void *take(size_t size) {
    char *block = (char *)malloc(size);
    CHECK(block != NULL);
    block[0] = 1;
    raise_to(&largest, (long)size);
    count((long)size);
    return block;
}

static void give(void *block, size_t size) {
    if (block == NULL)
        return;
    count(-(long)size);
    free(block);
}

/* ---- turns ---- */

static _Alignas(64) atomic_int turn;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int pipes[THREADS][2], events[THREADS];
static sem_t semaphores[THREADS];

static void turns_begin(void) {
    for (long i = 0; i < threads; i++) {
        CHECK(pipe(pipes[i]) == 0);
        events[i] = eventfd(0, 0);
        CHECK(events[i] >= 0 && sem_init(&semaphores[i], 0, 0) == 0);
    }
}

static void turn_wait(int me) {
    char byte;
    uint64_t number;
    if (strcmp(how, "mutex") == 0) {
        for (;;) {
            pthread_mutex_lock(&lock);
            int mine = turn == me;
            pthread_mutex_unlock(&lock);
            if (mine)
                return;
            sched_yield();
        }
    } else if (strcmp(how, "condition") == 0) {
        pthread_mutex_lock(&lock);
        while (turn != me)
            pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
    } else if (strcmp(how, "pipe") == 0) {
        CHECK(read(pipes[me][0], &byte, 1) == 1);
    } else if (strcmp(how, "eventfd") == 0) {
        CHECK(read(events[me], &number, 8) == 8);
    } else if (strcmp(how, "semaphore") == 0) {
        while (sem_wait(&semaphores[me]) != 0) {
        }
    } else if (strcmp(how, "futex") == 0) {
        for (int seen; (seen = turn) != me;)
            syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
    } else {
        /* The other one may need this processor. */
        for (unsigned spins = 1; turn != me; spins++)
            if (spins % 1000 == 0)
                sched_yield();
    }
}

static void turn_pass(int to) {
    uint64_t one = 1;
    if (strcmp(how, "mutex") == 0 || strcmp(how, "condition") == 0) {
        pthread_mutex_lock(&lock);
        turn = to;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    } else if (strcmp(how, "pipe") == 0) {
        CHECK(write(pipes[to][1], "", 1) == 1);
    } else if (strcmp(how, "eventfd") == 0) {
        CHECK(write(events[to], &one, 8) == 8);
    } else if (strcmp(how, "semaphore") == 0) {
        CHECK(sem_post(&semaphores[to]) == 0);
    } else {
        turn = to;
        if (strcmp(how, "futex") == 0)
            syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, THREADS, NULL, NULL, 0);
    }
}

static char *held[LIST];
static size_t held_size[LIST];

static void one_after_the_other(size_t size, int blocks, long round) {
    for (int i = 0; i < blocks; i++)
        give(held[i], held_size[i]);
    for (int i = 0; i < blocks; i++) {
        held_size[i] = blocks == 1 ? size : 50 + (size_t)(round * 7 + i * 13) % 1000;
        held[i] = (char *)take(held_size[i]);
    }
}

static void take_turn(long round) {
    if (strcmp(work, "small") == 0) {
        one_after_the_other(1000, 1, round);
    } else if (strcmp(work, "page") == 0) {
        one_after_the_other(4000, 1, round);
    } else if (strcmp(work, "mapped") == 0) {
        one_after_the_other(2 << 20, 1, round);
    } else if (strcmp(work, "list") == 0) {
        one_after_the_other(0, LIST, round);
    } else if (strcmp(work, "own") == 0) {
        give(take(1000), 1000);
    } else if (strcmp(work, "large") == 0) {
        give(take(300000), 300000);
    } else {
        CHECK(strcmp(work, "resize") == 0);
        size_t size = 1000 + (size_t)(round * 7919) % 500000;
        raise_to(&largest, (long)size);
        char *block = (char *)realloc(held[0], size);
        CHECK(block != NULL);
        block[0] = 1;
        /* Whether a block that shrinks or one that grows: the library counts it as one step. */
        count((long)size - (long)held_size[0]);
        held[0] = block;
        held_size[0] = size;
    }
}

static void *takes_turns(void *argument) {
    long me = (long)(intptr_t)argument;
    for (long round = 0; round < rounds; round++) {
        if (me != 0 || round != 0)
            turn_wait((int)me);
        take_turn(round * threads + me);
        turn_pass((int)((me + 1) % threads));
    }
    return NULL;
}

/* ---- a queue ---- */

struct item {
    void *blocks[BATCH];
    struct item *answer_to;
    int ready;
};

static struct item *queue[1024];
static unsigned first, last, room = DEEP;
static pthread_cond_t answered = PTHREAD_COND_INITIALIZER;

static void put(struct item *item) {
    pthread_mutex_lock(&lock);
    while (last - first == room)
        pthread_cond_wait(&changed, &lock);
    queue[last++ % 1024] = item;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static struct item *get(void) {
    pthread_mutex_lock(&lock);
    while (last == first)
        pthread_cond_wait(&changed, &lock);
    struct item *item = queue[first++ % 1024];
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return item;
}

static void *produces(void *argument) {
    (void)argument;
    for (long round = 0; round < rounds; round++) {
        struct item *item = (struct item *)take(sizeof *item);
        for (int i = 0; i < BATCH; i++)
            item->blocks[i] = take(block_size);
        put(item);
    }
    return NULL;
}

static void *consumes(void *argument) {
    (void)argument;
    for (long round = 0; round < rounds; round++) {
        struct item *item = get();
        for (int i = 0; i < BATCH; i++)
            give(item->blocks[i], block_size);
        give(item, sizeof *item);
    }
    return NULL;
}

/* An even thread asks, an odd one answers. */
static void *asks(void *argument) {
    (void)argument;
    for (long round = 0; round < rounds; round++) {
        struct item item = {.ready = 0};
        item.blocks[0] = take(block_size / 2);
        put(&item);
        pthread_mutex_lock(&lock);
        while (!item.ready)
            pthread_cond_wait(&answered, &lock);
        pthread_mutex_unlock(&lock);
        give(item.blocks[1], block_size);
    }
    return NULL;
}

static void *answers(void *argument) {
    (void)argument;
    for (long round = 0; round < rounds; round++) {
        struct item *item = get();
        give(item->blocks[0], block_size / 2);
        item->blocks[1] = take(block_size);
        pthread_mutex_lock(&lock);
        item->ready = 1;
        pthread_cond_broadcast(&answered);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

/* ---- lists of one's own ---- */

static struct list {
    _Alignas(64) pthread_mutex_t lock;
    void *blocks[LIST];
    int count;
} lists[THREADS];

static void *steals(void *argument) {
    long me = (long)(intptr_t)argument;
    unsigned seed = (unsigned)me + 1;
    for (long round = 0; round < rounds; round++) {
        seed = seed * 1103515245u + 12345u;
        /* The even ones put in more than they take out. */
        int puts = (seed >> 16) % 4 < (me % 2 == 0 ? 3 : 1);
        struct list *list = &lists[me];
        pthread_mutex_lock(&list->lock);
        if (!puts && list->count == 0) {
            pthread_mutex_unlock(&list->lock);
            list = &lists[(me + 1) % threads];
            pthread_mutex_lock(&list->lock);
        }
        if (puts && list->count < LIST)
            list->blocks[list->count++] = take(block_size);
        else if (list->count > 0)
            give(list->blocks[--list->count], block_size);
        pthread_mutex_unlock(&list->lock);
    }
    return NULL;
}

static _Alignas(64) _Atomic(void *) cell;

static void *swaps(void *argument) {
    (void)argument;
    for (long round = 0; round < rounds; round++) {
        /* The one that is taken out is freed before a new one is made. */
        give(atomic_exchange(&cell, NULL), block_size);
        void *fresh = take(block_size);
        give(atomic_exchange(&cell, fresh), block_size);
    }
    return NULL;
}

static _Alignas(64) atomic_int tickets;

static void *fills(void *argument) {
    int is_capped = argument != NULL;
    void *blocks[LIST];
    for (long round = 0; round < rounds; round++) {
        int have = 0;
        while (have < LIST) {
            if (is_capped && atomic_fetch_sub(&tickets, 1) <= 0) {
                atomic_fetch_add(&tickets, 1);
                break;
            }
            blocks[have++] = take(block_size);
        }
        while (have > 0) {
            give(blocks[--have], block_size);
            if (is_capped)
                atomic_fetch_add(&tickets, 1);
        }
    }
    return NULL;
}

static void *pairs(void *argument) {
    (void)argument;
    for (long round = 0; round < rounds; round++)
        give(take(block_size), block_size);
    return NULL;
}

static void *idles(void *argument) {
    return argument;
}

static void *allocates(void *argument) {
    (void)argument;
    return take(block_size);
}

/* Runs thread i with even or odd. */
static void together(void *(*even)(void *), void *(*odd)(void *), int is_capped) {
    pthread_t ids[THREADS];
    for (long i = 0; i < threads; i++) {
        void *argument = even == fills ? (is_capped ? &tickets : NULL) : (void *)(intptr_t)i;
        CHECK(pthread_create(&ids[i], NULL, i % 2 == 0 ? even : odd, argument) == 0);
    }
    for (long i = 0; i < threads; i++)
        CHECK(pthread_join(ids[i], NULL) == 0);
}

static int is(const char *name) {
    return strcmp(how, name) == 0;
}

int main(int argc, char **argv) {
    CHECK(argc == 5);
    how = argv[1];
    work = argv[2];
    threads = atol(argv[3]);
    rounds = atol(argv[4]);
    block_size = (size_t)atol(work);
    CHECK(threads > 0 && threads <= THREADS);
    if (is("join")) {
        for (long i = 0; i < rounds; i++) {
            pthread_t id;
            void *block;
            CHECK(pthread_create(&id, NULL, allocates, NULL) == 0 && pthread_join(id, &block) == 0);
            give(block, block_size);
        }
    } else if (is("pool")) {
        together(asks, answers, 0);
    } else if (is("batches")) {
        together(produces, consumes, 0);
    } else if (is("stealing")) {
        for (long i = 0; i < threads; i++)
            pthread_mutex_init(&lists[i].lock, NULL);
        together(steals, steals, 0);
    } else if (is("swap")) {
        together(swaps, swaps, 0);
    } else if (is("capped")) {
        tickets = LIST + LIST / 2;
        together(fills, fills, 1);
    } else if (is("lists")) {
        together(fills, fills, 0);
    } else if (is("pairs")) {
        together(pairs, pairs, 0);
    } else if (is("idle")) {
        together(idles, idles, 0);
    } else {
        turns_begin();
        together(takes_turns, takes_turns, 0);
    }
    say("peak %ld largest %ld threads %ld\n", atomic_load(&peak), atomic_load(&largest), threads);
    return 0;
}

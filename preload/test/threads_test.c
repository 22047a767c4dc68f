/* Thread blocks: who gets one, who gets it next, and that their sums are exact.
 */
#include "story.h"
#include "test.h"

#include <limits.h>
#include <pthread.h>
#include <sys/resource.h>

static struct reading reading;

/* Small stacks stay in the C library's cache: what belongs to them is not
 * freed. Its one calloc for a thread is counted as calloc; the tests use
 * malloc. */
static pthread_t thread_start(void *(*run)(void *), void *context) {
    pthread_t thread;
    pthread_attr_t attributes;
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstacksize(&attributes, 65536) == 0);
    CHECK(pthread_create(&thread, &attributes, run, context) == 0);
    return thread;
}

static void thread_end(pthread_t thread) {
    CHECK(pthread_join(thread, NULL) == 0);
}

/* ---- one after the other ---- */

static void *one_block(void *context) {
    free(malloc(10));
    return context;
}

SCENARIO(fifty_one_after_the_other) {
    free(malloc(5));
    for (int i = 0; i < 50; i++)
        thread_end(thread_start(one_block, NULL));
}

static void check_blocks_are_reused(enum mallow_mode mode) {
    reading_run(&reading, mode, "fifty_one_after_the_other");
    const struct image *image = reading_only(&reading);
    CHECK(image->process->threads == 2);
    CHECK(image->threads[0].owner == MALLOW_THREAD_OWNED && image->threads[0].tid == image->pid);
    CHECK(image->threads[1].owner == MALLOW_THREAD_FREE && image->threads[1].tid > image->pid);
    CHECK(image->process->unrecorded == 0);
}

TEST(count_a_block_goes_to_the_next_thread) {
    check_blocks_are_reused(MALLOW_MODE_COUNT);
    struct sums sums = image_sums(reading_only(&reading));
    CHECK(sums.counter[MALLOW_FAMILY_MALLOC].allocations == 51);
    CHECK(sums.counter[MALLOW_FAMILY_MALLOC].bytes == 505 && sums.frees == 51);
    CHECK(reading_only(&reading)->threads[1].counter[MALLOW_FAMILY_MALLOC].allocations == 50);
}

TEST(trace_a_ring_goes_to_the_next_thread) {
    check_blocks_are_reused(MALLOW_MODE_TRACE);
    struct story story = story_of(&reading_only(&reading)->ring[1]);
    CHECK(story_count(&story, MALLOW_OP_ALLOC + MALLOW_FAMILY_MALLOC) == 50);
    CHECK(story_count(&story, MALLOW_OP_FREE) == 50);
    /* Each owner names itself, a different one each time, before its events. */
    CHECK(story_count(&story, MALLOW_OP_THREAD) == 50);
    uint64_t tid = 0;
    for (size_t i = 0; i < story.events; i++)
        if (story.event[i].op == MALLOW_OP_THREAD) {
            CHECK(story.event[i].argument != tid);
            tid = story.event[i].argument;
        }
    CHECK(tid == reading_only(&reading)->threads[1].tid);
}

/* ---- more than there are blocks for ---- */

static pthread_barrier_t all_have_called;

static void *ten_blocks(void *context) {
    for (int i = 0; i < 10; i++)
        free(malloc(10));
    pthread_barrier_wait(&all_have_called);
    return context;
}

SCENARIO(eight_at_once) {
    pthread_t thread[8];
    free(malloc(5));
    pthread_barrier_init(&all_have_called, NULL, 8);
    for (int i = 0; i < 8; i++)
        thread[i] = thread_start(ten_blocks, NULL);
    for (int i = 0; i < 8; i++)
        thread_end(thread[i]);
}

static void run_with_four_blocks(enum mallow_mode mode) {
    reading_make(&reading, mode);
    reading.control->max_threads = 4;
    reading_start(&reading, "eight_at_once", NULL);
    reading_finish(&reading);
    CHECK(reading.status == 0);
    const struct mallow_process *process = reading_only(&reading)->process;
    CHECK(process->max_threads == 4 && process->threads == 4);
    /* Five threads found none: ten allocations and ten frees of each. */
    CHECK(process->unrecorded == 100);
}

TEST(count_threads_without_a_block_are_reported) {
    run_with_four_blocks(MALLOW_MODE_COUNT);
    struct sums sums = image_sums(reading_only(&reading));
    CHECK(sums.counter[MALLOW_FAMILY_MALLOC].allocations == 31 && sums.frees == 31);
}

TEST(trace_threads_without_a_block_are_reported) {
    run_with_four_blocks(MALLOW_MODE_TRACE);
    size_t allocations = 0, frees = 0;
    for (int i = 0; i < 4; i++) {
        struct story story = story_of(&reading_only(&reading)->ring[i]);
        allocations += story_count(&story, MALLOW_OP_ALLOC + MALLOW_FAMILY_MALLOC);
        frees += story_count(&story, MALLOW_OP_FREE);
    }
    CHECK(allocations == 31 && frees == 31);
}

/* ---- without a block, for long ---- */

#define PAIRS 300000

static void *many_pairs(void *context) {
    struct rusage before, after;
    CHECK(getrusage(RUSAGE_THREAD, &before) == 0);
    for (int i = 0; i < PAIRS; i++)
        free(malloc(10));
    CHECK(getrusage(RUSAGE_THREAD, &after) == 0);
    /* Each event that asked in vain took six system calls: more than half a second of the kernel's time in all. */
    long us =
        (after.ru_stime.tv_sec - before.ru_stime.tv_sec) * 1000000 + after.ru_stime.tv_usec - before.ru_stime.tv_usec;
    CHECK(us < 100000);
    return context;
}

SCENARIO(a_thread_too_many) {
    free(malloc(5));
    thread_end(thread_start(many_pairs, NULL));
}

static void check_it_seldom_asks(enum mallow_mode mode) {
    reading_make(&reading, mode);
    reading.control->max_threads = 1;
    reading_start(&reading, "a_thread_too_many", NULL);
    reading_finish(&reading);
    CHECK(reading.status == 0);
    CHECK(reading_only(&reading)->process->unrecorded == 2 * PAIRS);
}

TEST(count_a_thread_without_a_block_seldom_asks_for_one) {
    check_it_seldom_asks(MALLOW_MODE_COUNT);
}

TEST(trace_a_thread_without_a_block_seldom_asks_for_one) {
    check_it_seldom_asks(MALLOW_MODE_TRACE);
}

/* ---- at a thread's end ---- */

static pthread_key_t key;

/* Comes again in each of the C library's rounds. */
static void destructor(void *context) {
    free(malloc(20));
    CHECK(pthread_setspecific(key, context) == 0);
}

static void *with_destructor(void *context) {
    CHECK(pthread_setspecific(key, &key) == 0);
    return context;
}

SCENARIO(allocating_destructors) {
    CHECK(pthread_key_create(&key, destructor) == 0);
    for (int i = 0; i < 10; i++)
        thread_end(thread_start(with_destructor, NULL));
}

TEST(count_what_destructors_allocate) {
    reading_run(&reading, MALLOW_MODE_COUNT, "allocating_destructors");
    struct sums sums = image_sums(reading_only(&reading));
    CHECK(sums.counter[MALLOW_FAMILY_MALLOC].allocations == 10 * PTHREAD_DESTRUCTOR_ITERATIONS);
    CHECK(sums.frees == 10 * PTHREAD_DESTRUCTOR_ITERATIONS && reading_only(&reading)->process->unrecorded == 0);
}

TEST(trace_what_destructors_allocate) {
    reading_run(&reading, MALLOW_MODE_TRACE, "allocating_destructors");
    const struct image *image = reading_only(&reading);
    size_t allocations = 0;
    for (uint32_t i = 0; i < image->process->threads; i++) {
        struct story story = story_of(&image->ring[i]);
        allocations += story_count(&story, MALLOW_OP_ALLOC + MALLOW_FAMILY_MALLOC);
    }
    CHECK(allocations == 10 * PTHREAD_DESTRUCTOR_ITERATIONS && image->process->unrecorded == 0);
}

/* ---- under load: eight threads free each other's blocks ---- */

#define BLOCKS 20000u
#define SLOTS  64u

static void *slot[SLOTS];

static void *exchange(void *context) {
    unsigned seed = (unsigned)(uintptr_t)context;
    for (unsigned i = 0; i < BLOCKS; i++) {
        seed = seed * 1103515245u + 12345u;
        uint64_t *block = malloc(8 + i % 100);
        CHECK(block != NULL);
        *block = i;
        free(__atomic_exchange_n(&slot[(seed >> 16) % SLOTS], block, __ATOMIC_ACQ_REL));
    }
    return NULL;
}

SCENARIO(frees_across_threads) {
    pthread_t thread[8];
    for (uintptr_t i = 0; i < 8; i++)
        thread[i] = thread_start(exchange, (void *)(i + 1));
    for (int i = 0; i < 8; i++)
        thread_end(thread[i]);
    for (unsigned i = 0; i < SLOTS; i++)
        free(slot[i]);
}

#define ALL_BLOCKS (8ull * BLOCKS)
#define ALL_BYTES  (8ull * (BLOCKS / 100) * (100 * 8 + 4950))

TEST(count_frees_across_threads) {
    reading_run(&reading, MALLOW_MODE_COUNT, "frees_across_threads");
    struct sums sums = image_sums(reading_only(&reading));
    CHECK(sums.counter[MALLOW_FAMILY_MALLOC].allocations == ALL_BLOCKS);
    CHECK(sums.counter[MALLOW_FAMILY_MALLOC].bytes == ALL_BYTES);
    CHECK(sums.frees == ALL_BLOCKS && sums.lost == 0 && reading_only(&reading)->process->unrecorded == 0);
}

static int by_value(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

TEST(trace_frees_across_threads) {
    reading_run(&reading, MALLOW_MODE_TRACE, "frees_across_threads");
    const struct image *image = reading_only(&reading);
    uint64_t *allocated = calloc(ALL_BLOCKS, 8), *freed = calloc(ALL_BLOCKS, 8);
    size_t allocations = 0, frees = 0;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < image->process->threads; i++) {
        struct story story = story_of(&image->ring[i]);
        for (size_t j = 0; j < story.events; j++) {
            const struct event *e = &story.event[j];
            if (e->op == MALLOW_OP_ALLOC + MALLOW_FAMILY_MALLOC) {
                CHECK(allocations < ALL_BLOCKS);
                allocated[allocations++] = e->argument;
                bytes += e->size;
            } else if (e->op == MALLOW_OP_FREE) {
                CHECK(frees < ALL_BLOCKS);
                freed[frees++] = e->argument;
            }
        }
    }
    CHECK(allocations == ALL_BLOCKS && frees == ALL_BLOCKS && bytes == ALL_BYTES);
    CHECK(image_sums(image).lost == 0 && image->process->unrecorded == 0);
    /* Each address was freed as often as it was allocated. */
    qsort(allocated, allocations, 8, by_value);
    qsort(freed, frees, 8, by_value);
    CHECK(memcmp(allocated, freed, 8 * ALL_BLOCKS) == 0);
}

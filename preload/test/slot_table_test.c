/* The table of samples in place: many blocks, one home, no room, threads, a forked child. */
#include "inplace/slot_table.h"
#include "test.h"

#include <pthread.h>
#include <stdint.h>
#include <sys/wait.h>

#define MOST 4096u

/* Sixteen bytes apart, as the C library's are. */
static const void *block(uint64_t number) {
    return (const void *)(0x7f0000000000ull + 16 * number);
}

/* Number + 1; 0: none. Its place is given back, as at the end of a sample. */
static uint32_t ended(const void *at) {
    uint32_t found = slot_table_remove(at);
    if (found != 0)
        slot_table_tidy(at);
    return found;
}

static unsigned filter_sum(void) {
    unsigned sum = 0;
    for (unsigned i = 0; i < sizeof slot_table_filter; i++)
        sum += slot_table_filter[i];
    return sum;
}

TEST(slot_table_finds_what_was_added_and_nothing_else) {
    CHECK(slot_table_make(MOST));
    for (uint32_t i = 0; i < MOST; i++)
        CHECK(slot_table_add(block(3 * i), i));
    CHECK(filter_sum() == MOST);
    for (uint32_t i = 0; i < MOST; i++) {
        CHECK(slot_table_remove(block(3 * i + 1)) == 0 && slot_table_remove(NULL) == 0);
        CHECK(ended(block(3 * i)) == i + 1 && ended(block(3 * i)) == 0);
    }
    CHECK(filter_sum() == 0);
    slot_table_unmake();
    CHECK(slot_table_remove(block(0)) == 0);
    CHECK(slot_table_make(MOST) && slot_table_add(block(0), 7) && ended(block(0)) == 8);
}

/* Blocks come and go, and places are used again: after many rounds all that live are found still. */
TEST(slot_table_stays_usable) {
    enum { LIVE = MOST, ROUNDS = 400 };
    static uint64_t live[LIVE];
    uint64_t next = 0, seed = 1;
    CHECK(slot_table_make(MOST));
    for (uint32_t i = 0; i < LIVE; i++)
        CHECK(slot_table_add(block(live[i] = next++), i));
    for (uint32_t round = 0; round < ROUNDS * LIVE; round++) {
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        uint32_t i = (uint32_t)(seed >> 33) % LIVE;
        CHECK(ended(block(live[i])) == i + 1);
        CHECK(slot_table_add(block(live[i] = next++), i));
    }
    CHECK(filter_sum() == LIVE);
    for (uint32_t i = 0; i < LIVE; i++)
        CHECK(ended(block(live[i])) == i + 1);
}

/* Blocks with one home: those that lie too far from it find no room, and the others are found. */
TEST(slot_table_without_room) {
    static const void *crowd[SLOT_TABLE_FAR + 1];
    unsigned found = 0;
    CHECK(slot_table_make(MOST));
    for (uint64_t i = 0; found < SLOT_TABLE_FAR + 1; i++)
        if (slot_table_hash(block(i)) >> (64 - 13) == 5)
            crowd[found++] = block(i);
    for (uint32_t i = 0; i < SLOT_TABLE_FAR; i++)
        CHECK(slot_table_add(crowd[i], i));
    CHECK(!slot_table_add(crowd[SLOT_TABLE_FAR], 1) && slot_table_remove(crowd[SLOT_TABLE_FAR]) == 0);
    CHECK(ended(crowd[10]) == 11 && slot_table_add(crowd[SLOT_TABLE_FAR], 10));
    CHECK(ended(crowd[SLOT_TABLE_FAR]) == 11);
    for (uint32_t i = 0; i < SLOT_TABLE_FAR; i++)
        CHECK(ended(crowd[i]) == (i == 10 ? 0 : i + 1));
    CHECK(filter_sum() == 0);
    /* Addresses and numbers that no entry has room for. */
    CHECK(!slot_table_add((const void *)(1ull << 47), 0) && !slot_table_add(block(0), 1u << SLOT_TABLE_BITS));
}

/* ---- threads ---- */

enum { THREADS = 4, TURNS = 200000, EACH = 64 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/*
 * Adds under the lock, removes without it, tidies under it, as samples do. Each thread has numbers and blocks of its
 * own.
 */
static void *churn(void *argument) {
    uint64_t mine = (uint64_t)(uintptr_t)argument, at[EACH] = {0};
    for (uint64_t turn = 0; turn < TURNS; turn++) {
        uint32_t i = (uint32_t)(turn % EACH), number = (uint32_t)(mine * EACH + i);
        if (at[i] != 0) {
            CHECK(slot_table_remove(block(at[i])) == number + 1);
            CHECK(slot_table_remove(block(at[i])) == 0);
        }
        pthread_mutex_lock(&lock);
        if (at[i] != 0)
            slot_table_tidy(block(at[i]));
        at[i] = turn * THREADS + mine + 1;
        CHECK(slot_table_add(block(at[i]), number));
        pthread_mutex_unlock(&lock);
    }
    for (uint32_t i = 0; i < EACH; i++)
        CHECK(slot_table_remove(block(at[i])) == mine * EACH + i + 1);
    return NULL;
}

TEST(slot_table_of_many_threads) {
    pthread_t thread[THREADS];
    CHECK(slot_table_make(THREADS * EACH));
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread[i], NULL, churn, (void *)i) == 0);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
    CHECK(filter_sum() == 0);
}

/* A child has its parent's samples, and what it does with them is its own. */
TEST(slot_table_in_a_forked_child) {
    CHECK(slot_table_make(MOST) && slot_table_add(block(1), 1) && slot_table_add(block(2), 2));
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(ended(block(1)) == 2 && slot_table_add(block(3), 3) && ended(block(3)) == 4 ? 0 : 1);
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(ended(block(3)) == 0 && ended(block(1)) == 2 && ended(block(2)) == 3);
}

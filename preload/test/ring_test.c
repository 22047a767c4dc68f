/* The producer's end of a ring: laps, waiting, and what ends it. */
#include "base/filter.h"
#include "base/reader.h"
#include "base/target.h"
#include "test.h"
#include "trace/ring.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORDS     64u
#define MARGIN    8u
#define UNTOUCHED 0x5a5a5a5a5a5a5a5aull

struct target target;
static struct mallow_control control = {.epoch = 1};
uint32_t filter_state;
static struct mallow_process process = {
    .state = MALLOW_PROCESS_READY, .large_ring_words = WORDS, .small_ring_words = WORDS, .max_threads = 1};
static struct mallow_thread block;
static uint64_t memory[MARGIN + 4 * WORDS + MARGIN];
static unsigned overs, losses;

void target_stop(void) {
    overs++;
}

void target_count_lost(void) {
    losses++;
}

/* An empty ring after `position` words. */
static struct ring ring_at(uint64_t position) {
    struct ring ring;
    target =
        (struct target){.control = &control, .process = &process, .threads = &block, .part = (char *)(memory + MARGIN)};
    for (unsigned i = 0; i < sizeof memory / sizeof *memory; i++)
        memory[i] = UNTOUCHED;
    block.head = block.tail = position;
    block.ring_words = WORDS;
    control.reader = (uint32_t)gettid();
    ring_open(&ring, &block);
    return ring;
}

static void check_margins(void) {
    for (unsigned i = 0; i < MARGIN; i++) {
        CHECK(memory[i] == UNTOUCHED);
        CHECK(memory[MARGIN + block.ring_words + i] == UNTOUCHED);
    }
}

static uint64_t *put(struct ring *ring, uint64_t count, uint64_t value) {
    uint64_t *room = ring_room(ring, count);
    CHECK(room != NULL);
    for (uint64_t i = 0; i < count; i++)
        room[i] = value + i;
    ring_publish(ring, count);
    return room;
}

TEST(records_follow_each_other) {
    struct ring ring = ring_at(0);
    CHECK(put(&ring, 3, 10) == ring.words);
    CHECK(block.head == 3);
    CHECK(put(&ring, 2, 20) == ring.words + 3);
    CHECK(block.head == 5);
    CHECK(ring.words[2] == 12 && ring.words[3] == 20 && ring.words[4] == 21 && ring.words[5] == UNTOUCHED);
}

TEST(nothing_is_published_before_it_is_written) {
    struct ring ring = ring_at(0);
    CHECK(ring_room(&ring, 5) != NULL);
    CHECK(block.head == 0);
}

TEST(a_record_that_does_not_fit_into_the_lap_begins_the_next) {
    struct ring ring = ring_at(WORDS - 4);
    CHECK(put(&ring, 6, 1) == ring.words);
    CHECK(ring.words[WORDS - 4] == ring_word(MALLOW_OP_PAD, 0, 0));
    CHECK(block.head == WORDS + 6);
    check_margins();
}

TEST(the_laps_end_is_seen_after_a_record_before_it) {
    struct ring ring = ring_at(WORDS - 4);
    CHECK(put(&ring, 2, 1) == ring.words + WORDS - 4);
    CHECK(put(&ring, 3, 1) == ring.words);
    CHECK(ring.words[WORDS - 2] == ring_word(MALLOW_OP_PAD, 0, 0));
    CHECK(block.head == WORDS + 3);
    check_margins();
}

TEST(a_record_that_fits_exactly_needs_no_pad) {
    struct ring ring = ring_at(WORDS - 4);
    CHECK(put(&ring, 4, 1) == ring.words + WORDS - 4);
    CHECK(block.head == WORDS);
    CHECK(put(&ring, 1, 9) == ring.words);
    check_margins();
}

TEST(one_record_may_fill_the_ring) {
    struct ring ring = ring_at(5 * WORDS);
    CHECK(put(&ring, WORDS, 1) == ring.words);
    CHECK(block.head == 6 * WORDS);
    check_margins();
}

TEST(a_ring_goes_on_where_its_last_owner_ended) {
    struct ring first = ring_at(0);
    put(&first, 7, 1);
    struct ring second;
    ring_open(&second, &block);
    CHECK(put(&second, 1, 50) == second.words + 7);
    CHECK(block.head == 8);
}

/* An empty ring of WORDS words after `position` words, which may have four times as many. */
static struct ring growing_ring_at(uint64_t position) {
    struct ring ring = ring_at(position);
    process.large_ring_words = 4 * WORDS;
    return ring;
}

TEST(a_ring_grows_in_its_first_lap) {
    struct ring ring = growing_ring_at(0);
    for (uint64_t i = 0; i < 4 * WORDS; i++) {
        CHECK(block.ring_words == (i < WORDS ? WORDS : i < 2 * WORDS ? 2 * WORDS : 4 * WORDS));
        CHECK(put(&ring, 1, i) == ring.words + i);
    }
    for (uint64_t i = 0; i < 4 * WORDS; i++)
        CHECK(ring.words[i] == i);
    check_margins();
    block.tail = 1;
    CHECK(put(&ring, 1, 7) == ring.words);
    check_margins();
}

TEST(a_record_may_lie_across_where_a_ring_ended) {
    struct ring ring = growing_ring_at(0);
    put(&ring, WORDS - 2, 1);
    CHECK(put(&ring, 5, 100) == ring.words + WORDS - 2);
    CHECK(block.head == WORDS + 3 && block.ring_words == 2 * WORDS);
    check_margins();
}

TEST(a_ring_grows_in_no_later_lap) {
    struct ring ring = growing_ring_at(WORDS);
    CHECK(put(&ring, WORDS, 1) == ring.words);
    CHECK(block.ring_words == WORDS);
    check_margins();
}

/* A filter came with the event that found no room: its pad is the end of the lap, for good. */
TEST(a_ring_that_could_not_grow_stays_as_it_is) {
    struct ring ring = growing_ring_at(0);
    put(&ring, WORDS - 2, 1);
    filter_state = FILTER_SEEN;
    block.tail = WORDS - 2;
    CHECK(put(&ring, 5, 100) == ring.words);
    filter_state = 0;
    block.tail = block.head;
    put(&ring, WORDS - 5, 1);
    CHECK(block.head == 2 * WORDS && block.ring_words == WORDS);
    check_margins();
}

TEST(a_reader_that_sleeps_is_woken_before_the_ring_is_full) {
    struct ring ring = ring_at(0);
    control.asleep = 1;
    for (unsigned i = 0; i < WORDS - WORDS / 4; i++)
        put(&ring, 1, i);
    CHECK(control.doorbell > 0);
}

TEST(a_reader_that_is_awake_is_not_woken) {
    struct ring ring = ring_at(0);
    for (unsigned i = 0; i < WORDS; i++)
        put(&ring, 1, i);
    CHECK(control.doorbell == 0);
}

/* ---- with a reader ---- */

struct reader {
    pthread_t thread;
    uint64_t records; /* to be read */
    uint64_t words;   /* read, without pads */
    int naps;         /* waits until the owner sleeps before it reads */
};

static void consume(uint64_t tail) {
    __atomic_store_n(&block.tail, tail, __ATOMIC_SEQ_CST);
    if (__atomic_exchange_n(&block.waiting, 0, __ATOMIC_SEQ_CST) != 0)
        sys_futex_wake((uint32_t *)&block.tail);
}

/* A record of this test: its first word is length << 32 | number, each further
 * one the number. */
static void *read_records(void *context) {
    struct reader *reader = context;
    const uint64_t *words = memory + MARGIN;
    uint64_t tail = block.tail, number = 0;
    while (number < reader->records) {
        uint64_t head = __atomic_load_n(&block.head, __ATOMIC_ACQUIRE);
        CHECK(head - tail <= WORDS);
        if (head == tail || (reader->naps && __atomic_load_n(&block.waiting, __ATOMIC_SEQ_CST) == 0)) {
            sched_yield();
            reader->naps = reader->naps && number + 40 < reader->records;
            continue;
        }
        uint64_t word = words[tail % WORDS], length = word >> 32 & 0xff;
        if (word >> 56 == MALLOW_OP_PAD) {
            tail = (tail | (WORDS - 1)) + 1;
        } else {
            CHECK((word & 0xffffffff) == number);
            CHECK(tail % WORDS + length <= WORDS && length <= head - tail);
            for (uint64_t i = 1; i < length; i++)
                CHECK(words[tail % WORDS + i] == number);
            number++;
            reader->words += length;
            tail += length;
        }
        consume(tail);
    }
    return NULL;
}

static void stream(uint64_t records, int naps) {
    struct reader reader = {.records = records, .naps = naps};
    struct ring ring = ring_at(WORDS - 3);
    uint64_t words = 0;
    CHECK(pthread_create(&reader.thread, NULL, read_records, &reader) == 0);
    for (uint64_t i = 0; i < records; i++) {
        uint64_t length = 1 + i * 7919 % (WORDS / 2);
        uint64_t *room = ring_room(&ring, length);
        CHECK(room != NULL);
        room[0] = length << 32 | i;
        for (uint64_t j = 1; j < length; j++)
            room[j] = i;
        ring_publish(&ring, length);
        words += length;
    }
    CHECK(pthread_join(reader.thread, NULL) == 0);
    CHECK(reader.words == words && block.lost == 0 && overs == 0);
    check_margins();
}

TEST(a_full_ring_loses_nothing_while_it_is_read) {
    stream(50000, 0);
}

TEST(an_owner_that_sleeps_is_woken) {
    stream(2000, 1);
    CHECK(control.doorbell > 0);
}

static void *live_and_read_late(void *context) {
    for (int i = 0; i < 250; i++) {
        __atomic_fetch_add(&control.epoch, 1, __ATOMIC_RELAXED);
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    }
    consume(WORDS);
    return context;
}

TEST(a_reader_that_is_slow_but_alive_is_waited_for) {
    struct ring ring = ring_at(0);
    pthread_t thread;
    put(&ring, WORDS, 1);
    CHECK(pthread_create(&thread, NULL, live_and_read_late, NULL) == 0);
    CHECK(ring_room(&ring, 1) == ring.words);
    CHECK(block.lost == 0 && overs == 0 && control.silent == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

/* ---- ends ---- */

static void check_refused(struct ring *ring, uint64_t count) {
    uint64_t head = block.head;
    CHECK(ring_room(ring, count) == NULL);
    CHECK(block.lost == 1 && overs == 1 && losses == 0 && block.head == head);
    check_margins();
}

TEST(a_dead_reader_ends_the_recording) {
    struct ring ring = ring_at(0);
    put(&ring, WORDS, 1);
    control.reader |= MALLOW_READER_DIED;
    check_refused(&ring, 1);
    CHECK(ring.words[0] == 1 && control.doorbell == 0);
}

TEST(a_dead_reader_is_noticed_at_a_laps_end_too) {
    struct ring ring = ring_at(8);
    put(&ring, WORDS - 8, 1);
    put(&ring, 7, 100);
    control.reader = 0;
    check_refused(&ring, 3);
}

/* Its clock stands still, and it cannot be looked at: what is not recorded from there on is counted. */
TEST(a_silent_reader_is_not_waited_for_while_its_clock_stands_still) {
    struct ring ring = ring_at(0);
    control.epoch = 7;
    put(&ring, WORDS, 1);
    CHECK(ring_room(&ring, 1) == NULL);
    CHECK(block.lost == 1 && overs == 0 && losses == 1 && control.silent == 7 && control.ping == 1);
    struct patience other = {0};
    uint32_t word = 0;
    CHECK(reader_wait(&other, &word, 0, 1000) == 0);
    control.epoch = 8;
    CHECK(reader_wait(&other, &word, 0, 1) == 1);
}

/* Field 22 of /proc/PID/stat. */
static uint64_t start_of(pid_t pid) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    CHECK(file != NULL && fgets(text, sizeof text, file) != NULL);
    fclose(file);
    char *at = strrchr(text, ')');
    for (int field = 2; field < 22; field++)
        at = strchr(at + 1, ' ');
    return strtoull(at, NULL, 10);
}

/* Waits of 20 ms: more than it takes to know a silent reader, and in sum a tenth of the patience with one that is
 * not known, so that a slow machine reaches the one and not the other. */
#define WAITS 10

/* How often a wait for a reader that is this process was begun until it was known to be silent. */
static unsigned waits_for(pid_t pid, uint64_t start) {
    ring_at(0);
    control.reader = (uint32_t)pid;
    control.reader_start = start;
    struct patience patience = {0};
    uint32_t word = 0;
    unsigned waits = 0;
    while (waits < WAITS && reader_wait(&patience, &word, 0, 20))
        waits++;
    CHECK((waits < WAITS) == (control.silent == control.epoch));
    return waits;
}

TEST(a_stopped_reader_is_known_after_one_wait_or_two) {
    pid_t pid = fork();
    if (pid == 0)
        for (;;)
            pause();
    uint64_t start = start_of(pid);
    int status;
    CHECK(kill(pid, SIGSTOP) == 0 && waitpid(pid, &status, WUNTRACED) == pid);
    CHECK(waits_for(pid, start) <= 2);
    control.silent = 0;
    CHECK(waits_for(pid, start + 1) == WAITS); /* somebody else, with its number */
    CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid);
}

/* Until it sleeps: one that was just created may wait for a processor. */
static void wait_until_asleep(pid_t pid) {
    char path[64], state = 0;
    uint64_t start;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    while (state != 'S') {
        CHECK(sys_thread_stat(path, &state, &start));
        usleep(1000);
    }
}

/* As a control group freezes it: it seems to sleep, and does not answer. One that is busy does not either. */
TEST(a_frozen_reader_is_distinguished_from_a_busy_one) {
    pid_t sleeper = fork();
    if (sleeper == 0)
        for (;;)
            pause();
    pid_t busy = fork();
    if (busy == 0)
        for (;;)
            ;
    wait_until_asleep(sleeper);
    CHECK(waits_for(busy, start_of(busy)) == WAITS);
    /* Longer than the patience with any other reader: it waits for a processor, as this process does. */
    struct patience patience = {.epoch = control.epoch, .since_ns = sys_tick_ns() - 5000000000ull};
    uint32_t word = 0;
    CHECK(reader_wait(&patience, &word, 0, 20) == 1 && control.silent == 0);
    patience.since_ns = sys_tick_ns() - 60000000000ull;
    CHECK(reader_wait(&patience, &word, 0, 20) == 0);
    control.silent = 0;
    CHECK(waits_for(sleeper, start_of(sleeper)) <= 5);
    control.silent = 0;
    control.pong = control.ping + 1; /* it answers */
    CHECK(waits_for(sleeper, start_of(sleeper)) == WAITS);
    CHECK(kill(sleeper, SIGKILL) == 0 && kill(busy, SIGKILL) == 0);
}

TEST(a_recording_that_is_over_is_not_waited_for) {
    struct ring ring = ring_at(0);
    put(&ring, WORDS, 1);
    control.epoch = MALLOW_EPOCH_OVER;
    check_refused(&ring, 1);
    CHECK(control.doorbell == 0);
}

TEST(a_closed_process_file_is_not_waited_for) {
    struct ring ring = ring_at(0);
    put(&ring, WORDS, 1);
    process.state = MALLOW_PROCESS_CLOSED;
    check_refused(&ring, 1);
    CHECK(control.doorbell == 0);
}

TEST(a_tail_before_the_ring_is_an_end) {
    struct ring ring = ring_at(3 * WORDS);
    put(&ring, WORDS, 1);
    block.tail = 2 * WORDS;
    check_refused(&ring, 1);
}

TEST(a_tail_beyond_the_head_is_an_end) {
    struct ring ring = ring_at(0);
    put(&ring, WORDS, 1);
    block.tail = UINT64_MAX - 5;
    check_refused(&ring, 1);
    block.lost = overs = 0;
    block.tail = block.head + 1;
    check_refused(&ring, WORDS);
}

/* Slow paths of a ring: its size, wrapping around, and waiting for mallow.  */
#include "trace/ring.h"
#include "arch.h"
#include "base/filter.h"
#include "base/reader.h"
#include "base/target.h"

#include <fcntl.h>
#include <sys/statfs.h>
#include <sys/syscall.h>

#define WAIT_MS 20

/* A ring begins with so many words, and grows while its thread fills it for the first time: most threads write
 * little, and a page takes longer to make than to write. */
#define FIRST_WORDS 2048u

/* A ring takes this share of what is left in the file system at the most, … */
#define RING_SHARE 256u
/*
 * … and a process with many threads leaves a share of all of it, or as much as this, to others: to the target itself.
 */
#define LEFT_SHARE 32u
#define LEFT_MOST  (16u << 20)

/* Words that the ring of block `index` may have. */
static uint64_t ring_words_most(const struct mallow_process *process, uint32_t index) {
    return index < MALLOW_LARGE_RINGS ? process->large_ring_words : process->small_ring_words;
}

static uint64_t words_before(uint32_t index, uint64_t large_words, uint64_t small_words) {
    uint64_t large = index < MALLOW_LARGE_RINGS ? index : MALLOW_LARGE_RINGS;
    return large * large_words + (index - large) * small_words;
}

uint64_t rings_bytes(uint32_t threads) {
    return 8 * words_before(threads, target.control->large_ring_words, target.control->small_ring_words);
}

/* Where the ring of block `index` begins. */
static uint64_t *ring_start(uint32_t index) {
    const struct mallow_process *process = target.process;
    return (uint64_t *)target.part + words_before(index, process->large_ring_words, process->small_ring_words);
}

/*
 * What is left in the file system of the run directory, in bytes, and what of that a process with many threads leaves.
 */
struct room {
    uint64_t left;
    uint64_t reserve;
};

/* Nothing is known where the question fails. Under a filter of system calls it may be punished, and is not asked. */
static struct room find_room(void) {
    struct statfs system;
    long failed = -1, directory = -1;
    if (filter_is(FILTER_SEEN))
        return (struct room){UINT64_MAX, 0};
    if (target.open == NULL)
        failed = SYS_CALL2(SYS_statfs, target.directory, &system);
    else if ((directory = target_open(target.directory, O_PATH, 0)) >= 0)
        failed = SYS_CALL2(SYS_fstatfs, directory, &system);
    if (directory >= 0)
        sys_close((int)directory);
    if (failed != 0)
        return (struct room){UINT64_MAX, 0};
    uint64_t block_bytes = (uint64_t)system.f_bsize, share = system.f_blocks * block_bytes / LEFT_SHARE;
    uint64_t left = system.f_bavail * block_bytes; /* to this user */
    return (struct room){left, share < LEFT_MOST ? share : LEFT_MOST};
}

static int is_reserved(uint32_t index, struct room room) {
    return index >= MALLOW_LARGE_RINGS && room.left < room.reserve;
}

static int is_within_share(uint64_t words, struct room room) {
    return 8 * words <= room.left / RING_SHARE;
}

int ring_create(struct mallow_thread *block) {
    if (block->ring_words != 0) /* its last owner's */
        return 1;
    uint32_t index = thread_index(block);
    uint64_t most = ring_words_most(target.process, index), least = most, words = most;
    struct room room = find_room();
    while (least / 2 > 2 * target.control->max_depth)
        least /= 2;
    if (is_reserved(index, room))
        return 0;
    while (words > least && (!is_within_share(words, room) || (words > FIRST_WORDS && !filter_is(FILTER_SEEN))))
        words /= 2;
    while (sys_populate(ring_start(index), 8 * words) != 0) {
        if (words == least)
            return 0;
        words /= 2;
    }
    block->ring_words = (uint32_t)words;
    return 1;
}

/* Doubles a ring in its first lap: no word that was written changes its place. 0: it stays as it is, for want of
 * room, or because a filter may punish this. */
static int ring_grow(struct ring *ring) {
    uint32_t index = thread_index(ring->block);
    uint64_t words = ring->mask + 1;
    if (2 * words > ring_words_most(target.process, index) || filter_is(FILTER_SEEN))
        return 0;
    struct room room = find_room();
    if (is_reserved(index, room) || !is_within_share(2 * words, room) ||
        sys_populate(ring->words + words, 8 * words) != 0)
        return 0;
    ring->mask = 2 * words - 1;
    __atomic_store_n(&ring->block->ring_words, (uint32_t)(2 * words), __ATOMIC_RELEASE);
    return 1;
}

void ring_open(struct ring *ring, struct mallow_thread *block) {
    uint32_t index = thread_index(block);
    ring->words = ring_start(index);
    ring->mask = block->ring_words - 1;
    ring->head = block->head;
    ring->limit = ring->head;
    ring->block = block;
}

static int is_read_no_more(void) {
    return reader_is_gone(target.control) ||
           __atomic_load_n(&target.process->state, __ATOMIC_RELAXED) == MALLOW_PROCESS_CLOSED;
}

COLD uint64_t *ring_wait(struct ring *ring, uint64_t count) {
    struct mallow_thread *block = ring->block;
    struct patience patience = {0};
    for (;;) {
        uint64_t words = ring->mask + 1;
        uint64_t tail = __atomic_load_n(&block->tail, __ATOMIC_ACQUIRE);
        uint64_t lap_end = (ring->head | ring->mask) + 1;
        uint64_t free_end = tail + words;
        if (ring->head - tail > words) /* somebody wrote over tail */
            break;
        /* Before the first lap ends: later, words would change their places. */
        if (ring->head < words && ring->head + count >= words && ring_grow(ring))
            continue;
        if (ring->head + count > lap_end && lap_end <= free_end) {
            *ring_next(ring) = ring_word(MALLOW_OP_PAD, 0, 0);
            ring_publish(ring, lap_end - ring->head);
            continue;
        }
        if (ring->head + count <= lap_end && ring->head + count <= free_end) {
            /* Comes back here four times a lap at least, to wake mallow long before the ring is full; and before the
             * end of the first one. */
            uint64_t limit = lap_end == words ? words - 1 : lap_end, quarter = ring->head + words / 4;
            limit = limit < free_end ? limit : free_end;
            ring->limit = limit < quarter ? limit : quarter;
            if (ring->head - tail >= words / 4 && __atomic_load_n(&target.control->asleep, __ATOMIC_RELAXED))
                doorbell_ring();
            return ring_next(ring);
        }
        if (is_read_no_more())
            break;
        /* mallow moves tail, then looks at waiting; we set waiting, then look at tail: one of us sees the other. */
        __atomic_store_n(&block->waiting, 1, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&block->tail, __ATOMIC_SEQ_CST) != tail)
            continue;
        doorbell_ring();
        if (!reader_wait(&patience, (uint32_t *)&block->tail, (uint32_t)tail, WAIT_MS) && !is_read_no_more()) {
            /* mallow is stopped. Lost events are counted, so that it can report them if it continues. */
            block->lost++;
            target_count_lost();
            return NULL;
        }
    }
    block->lost++;
    target_stop();
    return NULL;
}

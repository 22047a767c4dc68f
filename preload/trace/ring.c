/* See ring.h. */
#include "trace/ring.h"
#include "base/reader.h"
#include "base/target.h"

#define WAIT_MS 20

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
    uint64_t words = ring->mask + 1;
    struct patience patience = {0};
    for (;;) {
        uint64_t tail = __atomic_load_n(&block->tail, __ATOMIC_ACQUIRE);
        uint64_t lap_end = (ring->head | ring->mask) + 1;
        uint64_t free_end = tail + words;
        if (ring->head - tail > words) /* somebody wrote over tail */
            break;
        if (ring->head + count > lap_end && lap_end <= free_end) {
            *ring_next(ring) = ring_word(MALLOW_OP_PAD, 0, 0);
            ring_publish(ring, lap_end - ring->head);
            continue;
        }
        if (ring->head + count <= lap_end && ring->head + count <= free_end) {
            /* Comes back here four times a lap at least, to wake mallow long before the ring is full. */
            uint64_t limit = lap_end < free_end ? lap_end : free_end, quarter = ring->head + words / 4;
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
            /* Stopped: it may go on, and is then to say what is missing. */
            block->lost++;
            target_lose();
            return NULL;
        }
    }
    block->lost++;
    target_over();
    return NULL;
}

/* See ring.h. */
#include "ring.h"
#include "target.h"

/* How long one wait lasts, and after how many without a sign of life mallow counts as dead: two seconds. The epoch is
 * the sign: to ask the kernel for a process takes a call that filters of system calls may punish. */
#define WAIT_MS       20
#define WAITS_TO_DEAD 100

void ring_open(struct ring *ring, struct mallow_thread *block) {
    uint32_t index = thread_index(block);
    ring->words = ring_start(index);
    ring->mask = ring_words(target.process, index) - 1;
    ring->head = block->head;
    ring->limit = ring->head;
    ring->block = block;
}

static int reader_gone(void) {
    return __atomic_load_n(&target.control->epoch, __ATOMIC_RELAXED) == MALLOW_EPOCH_OVER ||
           __atomic_load_n(&target.process->state, __ATOMIC_RELAXED) == MALLOW_PROCESS_CLOSED;
}

COLD uint64_t *ring_wait(struct ring *ring, uint64_t count) {
    struct mallow_thread *block = ring->block;
    uint64_t words = ring->mask + 1;
    uint64_t epoch = __atomic_load_n(&target.control->epoch, __ATOMIC_RELAXED);
    unsigned quiet = 0;
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
        if (reader_gone())
            break;
        /* mallow moves tail, then looks at waiting; we set waiting, then look at tail: one of us sees the other. */
        __atomic_store_n(&block->waiting, 1, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&block->tail, __ATOMIC_SEQ_CST) != tail)
            continue;
        doorbell_ring();
        quiet += sys_futex_wait((uint32_t *)&block->tail, (uint32_t)tail, WAIT_MS) != 0;
        uint64_t now = __atomic_load_n(&target.control->epoch, __ATOMIC_RELAXED);
        quiet = now == epoch ? quiet : 0;
        epoch = now;
        if (quiet >= WAITS_TO_DEAD)
            break;
    }
    block->lost++;
    target_over();
    return NULL;
}

/* Stamps: see order.h. Cost: two shared additions where other threads stamped meanwhile, one where they did not. */
#include "trace/order.h"
#include "base/target.h"

#include <string.h>

int order_is_shared;

/* What all threads add to: two cache lines, as processors fetch two. */
static _Alignas(128) struct {
    uint64_t number; /* ORDER numbers given out */
    int64_t live;    /* sum of the balances, each as of its thread's last look */
    int64_t peak;    /* the highest live seen; only a bound is needed, so threads may overwrite each other's */
    char pad[104];
} shared;

void order_begin(struct order *order) {
    int64_t balance = order->balance, settled = order->settled;
    *order = (struct order){.balance = balance, .settled = settled};
}

void order_share(void) {
    __atomic_store_n(&order_is_shared, 1, __ATOMIC_SEQ_CST);
}

void order_forked(void) {
    order_is_shared = 0;
    memset(&shared, 0, sizeof shared);
}

static void window_lay(struct order *order, int64_t change) {
    uint64_t step = (uint64_t)(change < 0 ? -change : change);
    int64_t peak = __atomic_load_n(&shared.peak, __ATOMIC_RELAXED);
    uint64_t share = peak > 0 ? ((uint64_t)peak >> ORDER_PEAK_BITS) / target.process->threads : 0;
    uint64_t block = step < ORDER_BLOCK_MOST ? step : ORDER_BLOCK_MOST;
    order->width = share > block ? share : block;
    /* Room for undoing this event, and the rest where the balance is going. */
    uint64_t back = step < order->width ? step : order->width;
    order->floor = order->balance - (int64_t)(change < 0 ? order->width - back : back);
}

static int stamp(struct order *order, struct ring *ring, int64_t change, int is_out) {
    int64_t live = __atomic_add_fetch(&shared.live, order->balance - order->settled, __ATOMIC_SEQ_CST);
    order->settled = order->balance;
    if (live > __atomic_load_n(&shared.peak, __ATOMIC_RELAXED))
        __atomic_store_n(&shared.peak, live, __ATOMIC_RELAXED);
    /* Where nobody stamped since this thread did, its last number serves: whoever stamps next does it after this
     * event. That has to be written as well. Without it the event could be anywhere before the thread's next number,
     * and another block that came to the same address later, within the window of a third thread, could be taken for
     * its block. */
    int is_new = order->number == 0 || __atomic_load_n(&shared.number, __ATOMIC_SEQ_CST) != order->number;
    if (is_new || is_out) {
        uint64_t since = is_new && order->number != 0 ? ring->head - order->looked : 0;
        uint64_t *room = ring_room(ring, 1);
        if (room == NULL)
            return 0;
        order->number = is_new ? __atomic_add_fetch(&shared.number, 1, __ATOMIC_SEQ_CST) : order->number;
        room[0] = ring_word(MALLOW_OP_ORDER, since <= MALLOW_SINCE_MOST ? since : 0, order->number);
        ring_publish(ring, 1);
    }
    order->looked = ring->head;
    order->due = ring->head + MALLOW_ORDER_WORDS;
    window_lay(order, change);
    return 1;
}

COLD int order_settle(struct order *order, struct ring *ring, int64_t change) {
    if (!__atomic_load_n(&order_is_shared, __ATOMIC_SEQ_CST)) {
        order->due = order->width = UINT64_MAX;
        __atomic_store_n(&order->quick_limit, ring->limit, __ATOMIC_SEQ_CST);
        /* A second thread sets order_is_shared, then our limit: one of us sees the other. */
        if (!__atomic_load_n(&order_is_shared, __ATOMIC_SEQ_CST))
            return 1;
    }
    if (order->due == UINT64_MAX) /* not alone any more */
        order->due = 0;
    int unknown = real_sizes == REAL_SIZES_UNKNOWN;
    int is_out = unknown || order->number == 0 || (uint64_t)(order->balance - order->floor) > order->width;
    int is_due = ring->head >= order->due && (change >= 0 || ring->head - order->due >= ORDER_PATIENCE);
    if ((is_out || is_due) && !stamp(order, ring, change, is_out))
        return 0;
    uint64_t limit = ring->limit < order->due ? ring->limit : order->due;
    __atomic_store_n(&order->quick_limit, unknown ? 0 : limit, __ATOMIC_RELAXED);
    return 1;
}

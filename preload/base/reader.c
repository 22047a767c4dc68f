/* Waiting for mallow: who is dead, who is stopped, and who is slow. */
#include "base/reader.h"
#include "base/filter.h"

#include <string.h>

/* Mallow's clock stands still: for so long before it is asked for a sign of life, … */
#define DOUBT_NS (15ull * 1000000)
/*
 * … so long after that until a thread of it that sleeps on counts as stopped: woken, it would run or wait for a
 * processor;
 */
#define SLEEP_NS (30ull * 1000000)
/* … so long before one that cannot be looked at, or waits for a disk, is given up; */
#define PATIENCE_NS (2000ull * 1000000)
/* … and so long before one that waits for a processor is: this process has to wait for one as well. */
#define BUSY_NS (20000ull * 1000000)

/* The state of mallow's thread; 0: not known. In another namespace of processes that id may be somebody else's: its
 * start time distinguishes them. */
static char reader_state(const struct mallow_control *control) {
    char path[64];
    uint64_t start = control->reader_start;
    if (start == 0 || filter_is(FILTER_SEEN))
        return 0;
    memcpy(text_decimal(path + text_copy(path, "/proc/", sizeof path), control->reader & ~MALLOW_READER_DIED), "/stat",
           6);
    char state;
    uint64_t began;
    return sys_thread_stat(path, &state, &began) && began == start ? state : 0;
}

/*
 * Its clock stands still. Asks that thread of mallow for a sign of life which has nothing else to do, and looks at it.
 */
static int is_silent(struct mallow_control *control, struct patience *p, uint64_t now) {
    if (p->asked_ns == 0) {
        p->ping = __atomic_add_fetch(&control->ping, 1, __ATOMIC_ACQ_REL);
        sys_futex_wake(&control->ping);
        p->asked_ns = now;
    }
    char state = reader_state(control);
    if (state == 'T' || state == 't' || now - p->since_ns >= (state == 'R' ? BUSY_NS : PATIENCE_NS))
        return 1;
    /* Frozen by a control group, it seems to sleep. The answer is looked for last: it may have come meanwhile. */
    return state == 'S' && now - p->asked_ns >= SLEEP_NS &&
           (int32_t)(__atomic_load_n(&control->pong, __ATOMIC_ACQUIRE) - p->ping) < 0;
}

COLD int reader_wait(struct patience *p, uint32_t *word, uint32_t expected, unsigned ms) {
    struct mallow_control *control = target.control;
    uint64_t epoch = __atomic_load_n(&control->epoch, __ATOMIC_RELAXED);
    if (reader_is_gone(control) || epoch == __atomic_load_n(&control->silent, __ATOMIC_RELAXED))
        return 0;
    uint64_t now = sys_tick_ns();
    if (p->since_ns == 0 || epoch != p->epoch) {
        *p = (struct patience){.epoch = epoch, .since_ns = now};
    } else if (now - p->since_ns >= DOUBT_NS && is_silent(control, p, now)) {
        __atomic_store_n(&control->silent, epoch, __ATOMIC_RELAXED);
        return 0;
    }
    sys_futex_wait(word, expected, ms);
    return 1;
}

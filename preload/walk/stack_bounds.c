/* What of a stack can be read: the thread's own from its top on, another page by page. */
#include "arch.h"
#include "base/sys.h"
#include "walk/unwind.h"

/* As far a thread's stack may grow between two of its events. Beyond that it is walked as one that is not its own. */
#define THREAD_STACK_STEP (8ull << 20)

void unwind_adopt(struct unwinder *u) {
    uint64_t here = (uint64_t)__builtin_frame_address(0);
    u->depth = u->filled = 0;
    u->forget = 1;
    u->floor = 0;
    u->high = arch_main_stack_top();
    u->low = u->high - ARCH_MAIN_STACK_ROOM;
    if (here - u->low < u->high - u->low) {
        u->floor = u->low;
        return;
    }
    /*
     * How far the stack reaches down is learned as it is used: to ask the library takes a lock that this thread may
     * hold.
     */
    u->low = u->high = arch_thread_stack_top();
}

/* The thread is further down its stack than ever before, or on a stack of the program's own making: 1 when all pages
 * from sp up to the known part can be read. */
COLD static int stack_grew(struct unwinder *u, uint64_t sp) {
    if (sp >= u->low || sp < u->floor || u->low - sp > THREAD_STACK_STEP)
        return 0;
    uint64_t low = u->low & ~(ARCH_PAGE - 1);
    for (; low > sp; low -= ARCH_PAGE)
        if (!sys_readable(low - ARCH_PAGE)) {
            u->floor = low;
            return 0;
        }
    u->low = low;
    return 1;
}

int unwind_owns(struct unwinder *u, uint64_t address) {
    return LIKELY(address - u->low < u->high - u->low) || stack_grew(u, address);
}

int unwind_extend(uint64_t *high, uint64_t to) {
    if (to - *high > 64 * ARCH_PAGE)
        return 0;
    for (; *high < to; *high += ARCH_PAGE)
        if (!sys_readable(*high))
            return 0;
    return 1;
}

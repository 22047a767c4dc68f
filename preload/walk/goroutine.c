/*
 * cgo: C code that Go calls runs on the stack of its thread, and the Go functions that called it are on the stack of
 * their goroutine. Go's runtime.asmcgocall leaves on the former which goroutine that is, and how deep in its stack it
 * was. Not where: a callback into Go may move the goroutine's stack, and the frame pointer then leads to where it was.
 */
#include "arch.h"
#include "base/sys.h"
#include "walk/unwind.h"

/* The runtime's own limit is 1 GB. */
#define GOROUTINE_STACK_MOST (1ull << 30)

COLD uint64_t goroutine_cfa(uint64_t goroutine, uint64_t depth, uint64_t *high) {
    /* Its first two words are where its stack begins and ends. */
    if (goroutine % 8 != 0 || !sys_readable(goroutine) || !sys_readable(goroutine + 8))
        return 0;
    uint64_t low = load_word(goroutine), top = load_word(goroutine + 8);
    if (low >= top || top - low > GOROUTINE_STACK_MOST || (top - depth) % 8 != 0 || depth < RULE_FRAME_BYTES ||
        depth > top - low)
        return 0;
    uint64_t frame = top - depth, cfa = frame + RULE_FRAME_BYTES, ra_slot = rule_return_slot(cfa);
    if (!sys_readable(frame) || !sys_readable(ra_slot))
        return 0;
    *high = (ra_slot | (ARCH_PAGE - 1)) + 1;
    return cfa;
}

/* build: -rdynamic -fexceptions */
/* An executable that exports the names of libunwind and of libgcc's unwinder, as one does that links its own. Calls
 * that reach them from outside the program are counted: Mallow has no business there. */
#include "target.h"

static volatile int called;
#define OWN(name)                                                                                                      \
    int name(void) {                                                                                                   \
        called++;                                                                                                      \
        return -1;                                                                                                     \
    }
OWN(unw_step)
OWN(_ULx86_64_step)
OWN(unw_backtrace)
OWN(unw_init_local)
OWN(unw_getcontext)
OWN(_Unwind_Backtrace)
OWN(_Unwind_GetIP)
OWN(_Unwind_GetCFA)
OWN(_Unwind_Find_FDE)
OWN(_Unwind_FindEnclosingFunction)
OWN(backtrace)
OWN(__register_frame)
OWN(__register_frame_info)
/* And names that a preloaded library might want to use for itself. */
OWN(start)
OWN(init)
OWN(unwind)
OWN(ring)
OWN(count)
OWN(trace)
OWN(control)
OWN(real_malloc)
OWN(real_free)
OWN(resolve)
OWN(thread)

__attribute__((noinline)) static uint64_t deep(int depth) {
    char *block = malloc((size_t)depth + 1);
    uint64_t sum = depth ? deep(depth - 1) : churn(100, 1);
    free(keep(block));
    return sum + 1;
}
int main(void) {
    uint64_t sum = 0;
    for (int i = 0; i < 100; i++)
        sum += deep(i);
    say("%llu, called %d times\n", (unsigned long long)sum, called);
    return 0;
}

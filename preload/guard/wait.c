/* Waiting for the keeper. */
#include "base/filter.h"
#include "guard/guard_slots.h"

#include <string.h>

#define WAIT_MS 20

int guard_wait(uint32_t *word, uint32_t expected, uint64_t until_ns) {
    uint32_t keeper = __atomic_load_n(&target.control->guard_keeper, __ATOMIC_RELAXED);
    if (keeper == 0 || sys_tick_ns() >= until_ns)
        return 0;
    if (!sys_futex_wait(word, expected, WAIT_MS) || filter_is(FILTER_SEEN))
        return 1;
    char path[64], state;
    uint64_t began;
    memcpy(text_decimal(path + text_copy(path, "/proc/", sizeof path), keeper), "/stat", 6);
    return !sys_thread_stat(path, &state, &began) || (state != 'T' && state != 't' && state != 'Z' && state != 'X');
}

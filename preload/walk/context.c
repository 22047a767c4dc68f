/*
 * Callers of async functions of Swift: the contexts that wait for each other.
 *
 *   context of fetch              context of handle             the task's first context
 *   | 0: its caller's  ---------> | 0: its caller's  ---------> | 0: NULL
 *   | 8: handle, resumed          | 8: main, resumed            | 8: what ends the task
 *
 * They lie in memory that the program allocates for its tasks. What is taken for a context may be anything: each word
 * is read after the kernel said that it can be, and a chain counts only if each function in it begins where it says,
 * and if it ends at the first context of a task. The contexts of a task that runs are its own: no other thread frees
 * them.
 */
#include "arch.h"
#include "base/sys.h"
#include "walk/modules.h"
#include "walk/unwind.h"

/* A word of a context. *page: the last page that was readable. 0: it cannot be read. */
static int load(uint64_t address, uint64_t *page, uint64_t *value) {
    if ((address & 7) != 0)
        return 0;
    if (address / ARCH_PAGE != *page) {
        if (!sys_readable(address))
            return 0;
        *page = address / ARCH_PAGE;
    }
    *value = load_word(address);
    return 1;
}

/* Whether a function begins there. */
static int is_beginning(uint64_t pc) {
    const struct module *module = module_find(pc);
    return module != NULL && module->table != NULL && module->quick[module_row(module, pc)] == RULE_AT_ENTRY;
}

COLD int64_t context_callers(uint64_t context, struct place *places, uint32_t most, uint8_t *cut) {
    uint64_t page = UINT64_MAX, turtle = context; /* Brent's search for a cycle */
    for (uint32_t count = 0, turn = 1;; count++) {
        uint64_t caller, resumed;
        if (!load(context, &page, &caller) || !load(context + 8, &page, &resumed))
            return -1;
        if (caller == 0)
            return module_find(resumed) != NULL ? (int64_t)count : -1;
        if (caller == turtle || !is_beginning(resumed))
            return -1;
        if (count == most) {
            *cut = 1;
            return count;
        }
        places[count] = (struct place){.pc = resumed | MALLOW_EXACT_PC};
        if (count == turn) {
            turtle = caller;
            turn *= 2;
        }
        context = caller;
    }
}

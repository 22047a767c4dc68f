/*
 * What glibc's malloc cannot have returned: the main thread's stack, memory of modules, addresses where nothing can be
 * read, and those before which no header of a block is. The last test is glibc's own, by which it would end the program
 * (malloc/malloc.c: _int_free, munmap_chunk): so nothing that it would free is reported.
 */
#include "guard/foreign.h"
#include "arch.h"
#include "base/filter.h"
#include "base/real.h"
#include "guard/guard_slots.h"
#include "walk/modules.h"

#define ALIGNMENT   16u /* of every block */
#define LEAST       32u /* a chunk, with its header */
#define HEAD_MAPPED 2u  /* a chunk of pages of its own; the word before the size is what lies before it there */
#define HEAD_BITS   7u
#define LOWEST      (1ull << 16) /* vm.mmap_min_addr */
#define HIGHEST     (1ull << 47) /* addresses of programs */

/* Regions of addresses in which neither the main thread's stack nor a known module lies, and of which a page could
 * be read, each with modules_linker.changes of then: to look through all modules at each free would cost more than
 * the free does. */
#define REGION_BITS 18
static uint64_t plain[512];

static int has_head(uint64_t address) {
    const uint64_t *words = (const uint64_t *)address;
    uint64_t size = words[-1] & ~(uint64_t)HEAD_BITS, before = words[-2];
    if (size < LEAST || size % ALIGNMENT != 0 || address - ALIGNMENT > -size)
        return 0;
    return (words[-1] & HEAD_MAPPED) == 0 ||
           (((address - ALIGNMENT - before) | (before + size)) & (ARCH_PAGE - 1)) == 0;
}

static NOINLINE enum mallow_foreign elsewhere(uint64_t address, uint64_t *entry, uint64_t now) {
    uint64_t here = (uint64_t)__builtin_frame_address(0), top = arch_main_stack_top();
    uint64_t region = address >> REGION_BITS << REGION_BITS, end = region + (1ull << REGION_BITS);
    if (address >= here && address < top && top - here < ARCH_MAIN_STACK_ROOM)
        return MALLOW_FOREIGN_STACK;
    const struct module *module = module_known(address);
    if (module != NULL)
        return module != module_known((uint64_t)&guard_range) ? MALLOW_FOREIGN_MODULE : MALLOW_FOREIGN_NOT;
    /* Where its header would be. */
    if (!filter_is(FILTER_SEEN) && !sys_readable((address - 1) & ~(ARCH_PAGE - 1)))
        return sys_readable(address & ~(ARCH_PAGE - 1)) ? MALLOW_FOREIGN_MAPPED : MALLOW_FOREIGN_UNMAPPED;
    if (module_between(region, end) == NULL && (end <= top - ARCH_MAIN_STACK_ROOM || region >= top))
        __atomic_store_n(entry, now, __ATOMIC_RELAXED);
    return MALLOW_FOREIGN_NOT;
}

enum mallow_foreign foreign_is(const void *block) {
    uint64_t address = (uint64_t)block, region = address >> REGION_BITS;
    if (real_sizes != REAL_SIZES_IN_HEADS || !guard_is_joined() || modules_is_linker(address) || real_lent(block))
        return MALLOW_FOREIGN_NOT;
    if (address < LOWEST || address >= HIGHEST)
        return MALLOW_FOREIGN_UNMAPPED;
    uint64_t *entry = &plain[region % (sizeof plain / sizeof *plain)];
    uint64_t now = region << 32 | __atomic_load_n(&modules_linker.changes, __ATOMIC_ACQUIRE);
    enum mallow_foreign where = MALLOW_FOREIGN_NOT;
    if (UNLIKELY(__atomic_load_n(entry, __ATOMIC_RELAXED) != now))
        where = elsewhere(address, entry, now);
    if (where != MALLOW_FOREIGN_NOT || (address % ALIGNMENT == 0 && has_head(address)))
        return where;
    uint64_t here = (uint64_t)__builtin_frame_address(0);
    return address >= here && address < arch_thread_stack_top() ? MALLOW_FOREIGN_STACK : MALLOW_FOREIGN_MAPPED;
}

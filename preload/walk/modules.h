/* The loaded ELF files of this process, and their unwind tables. */
#ifndef MALLOW_MODULES_H
#define MALLOW_MODULES_H

#include "base/sys.h"
#include "base/wire.h"
#include "rule.h"

struct module {
    uint64_t start, end;              /* both 0: it was unloaded */
    const void *identity;             /* the dynamic linker's handle, which it may use again after an unload */
    const struct mallow_table *table; /* NULL: none, frame pointers are used */
    const uint32_t *pc;
    const uint16_t *quick;
    const uint32_t *full;
    const struct mallow_rule *rules;
};

/* How often a module took the place of another in this process. Stack numbers of older generations are void. */
extern uint32_t modules_generation HIDDEN;

/* A module that lies in these addresses, at least in part, among those that are known; NULL for none. */
const struct module *module_between(uint64_t start, uint64_t end);

static inline const struct module *module_known(uint64_t pc) {
    return module_between(pc, pc + 1);
}

/* The same, asking the dynamic linker: a new module is announced to mallow, and the call waits, for about two seconds
 * at the most, until its table is there. NULL: no module has this pc. */
const struct module *module_find(uint64_t pc);

/* In a new image: finds all modules and opens their tables. A program that installs a filter of system
 * calls later can then be unwound without opening files. About 10 us a module whose table there is. */
void modules_learn(void);

/*
 * Where nobody may be kept waiting: modules_wait 0. A module is then announced and goes without a table, until
 * modules_fetch finds that mallow has made it; `forget` is called for what was learned without. modules_await waits for
 * that, 100 ms at the most, and only while mallow gives signs of life.
 */
extern int modules_wait HIDDEN;
extern uint32_t modules_unanswered HIDDEN;
void modules_fetch(void (*forget)(void));
void modules_await(void);

/* Row of pc in the module's table; the module has one. */
uint32_t module_row(const struct module *module, uint64_t pc);

/* In a forked child: the same modules are still loaded. Puts them into the new process file. */
void modules_forked(void);
void modules_announce_all(void);

/*
 * Unloading is noticed by what the dynamic linker frees at its end, while it still holds its lock: no other module can
 * have taken the addresses yet. Call modules_linker_freed for each of its calls of free; modules_unsettled() is then
 * true until modules_settle() has looked through the modules.
 */
extern struct modules_linker {
    uint64_t start, bytes; /* where the dynamic linker's code lies */
    uint32_t freed;        /* its calls of free */
    uint32_t settled;      /* `freed` when the modules were last looked through */
    uint32_t changes;      /* how often any of this changed, or a module came */
    uint32_t unloads;      /* how often what was learned of code became void */
} modules_linker HIDDEN;

static inline int modules_is_linker(uint64_t return_address) {
    return return_address - modules_linker.start < modules_linker.bytes;
}

void modules_linker_freed(void);

static inline int modules_unsettled(void) {
    return __atomic_load_n(&modules_linker.freed, __ATOMIC_RELAXED) !=
           __atomic_load_n(&modules_linker.settled, __ATOMIC_RELAXED);
}

/* Drops the modules that were unloaded, and calls forget if there are any, before other threads take them as settled.
 */
void modules_settle(void (*forget)(void));

/* What was learned of code is void, in all threads: a module is gone, or lies where code of another kind was. */
void modules_void(void);

/* Once, early. */
void modules_setup(void);

#endif

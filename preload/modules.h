/* The loaded ELF files of this process, and their unwind tables. */
#ifndef MALLOW_MODULES_H
#define MALLOW_MODULES_H

#include "sys.h"
#include "wire.h"

struct module {
    uint64_t start, end;  /* both 0: it was unloaded */
    const void *identity; /* the dynamic linker's handle: differs when another file takes the address range */
    const struct mallow_table *table; /* NULL: none, frame pointers are used */
    const uint32_t *pc;
    const uint16_t *quick;
    const uint32_t *full;
    const struct mallow_rule *rules;
};

/* How often a module took the place of another in this process. Stack numbers of older generations are void. */
extern uint32_t modules_generation HIDDEN;

/* The module that holds pc, among those that are known; NULL for none. */
const struct module *module_known(uint64_t pc);

/* The same, asking the dynamic linker: a new module is announced to mallow, and the call waits, for about two seconds
 * at the most, until its table is there. NULL: no module has this pc. */
const struct module *module_find(uint64_t pc);

/* Row of pc in the module's table; the module has one. */
uint32_t module_row(const struct module *module, uint64_t pc);

/* In a forked child: the same modules are still loaded. Puts them into the new process file. */
void modules_forked(void);
void modules_announce_all(void);

/* Once, early. */
void modules_setup(void);

#endif

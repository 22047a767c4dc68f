/* Growing a hash table: from the entries alone, which hold what their place is taken from.  */
#include "walk/table.h"

#define FIRST_SIZE 512u

/* A handler that leaves by longjmp must not leave half of it: what is unmapped would be used, or unmapped again. */
COLD int table_grow(struct table *table) {
    uint64_t mask = sys_block_signals();
    struct table larger = {.size = table->size != 0 ? 2 * table->size : FIRST_SIZE, .used = table->used};
    larger.entry = sys_memory(larger.size * sizeof *larger.entry);
    if (larger.entry != NULL) {
        for (uint64_t *entry = table->entry; entry < table->entry + table->size; entry++)
            if (*entry != 0)
                *table_find(&larger, *entry, NULL, NULL) = *entry;
        if (table->size != 0)
            sys_memory_free(table->entry, table->size * sizeof *table->entry);
        *table = larger;
    }
    sys_restore_signals(mask);
    return larger.entry != NULL;
}

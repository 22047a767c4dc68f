/* A hash table of numbers: open addressing, linear probing, at most half full. */
#ifndef MALLOW_TABLE_H
#define MALLOW_TABLE_H

#include "base/sys.h"

#include <string.h>

/* All zero: empty, and without memory. */
struct table {
    uint64_t *entry; /* upper half of a hash << 32 | its number, which is never 0; 0: free */
    uint32_t size;   /* a power of two */
    uint32_t used;
};

/*
 * The entry of the number for which `same` is true, or a free one; `same` NULL: a free one. Precondition:
 * table_has_room.
 */
static inline ALWAYS_INLINE uint64_t *table_find(const struct table *table, uint64_t hash,
                                                 int (*same)(const void *context, uint32_t number),
                                                 const void *context) {
    for (uint64_t at = hash >> 32;; at++) {
        uint64_t *entry = &table->entry[at & (table->size - 1)];
        if (*entry == 0 || (same != NULL && *entry >> 32 == hash >> 32 && same(context, (uint32_t)*entry)))
            return entry;
    }
}

/* Fills a free entry that table_find found. */
static inline void table_set(struct table *table, uint64_t *entry, uint64_t hash, uint32_t number) {
    *entry = hash >> 32 << 32 | number;
    table->used++;
}

/* Keeps the memory. */
static inline void table_clear(struct table *table) {
    if (table->used != 0)
        memset(table->entry, 0, table->size * sizeof *table->entry);
    table->used = 0;
}

/* Twice the size, or the first memory. 0: there is none. */
int table_grow(struct table *table);

/* Makes room for one more. 0: there is no memory. */
static inline int table_has_room(struct table *table) {
    return LIKELY(2 * table->used < table->size) || table_grow(table);
}

#endif

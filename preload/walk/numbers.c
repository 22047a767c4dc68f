/* Stack numbers: the table, and growing it.  */
#include "walk/numbers.h"

#include <string.h>

#define NUMBER_MASK ((1ull << MALLOW_STACK_BITS) - 1)
#define FIRST_BITS  9u

_Static_assert(NUMBERS_MOST <= 1u << MALLOW_STACK_BITS, "a number fits into the wire's field");

/* The table and the two arrays by number lie in one mapping: 8 bytes an entry, and half of 8 and of 16. */
static uint64_t bytes(uint32_t bits) {
    return 20ull << bits;
}

/* The part of a hash that the table keeps; never 0. The place is taken from its low end. */
static uint64_t tag_of(uint64_t hash) {
    uint64_t tag = hash & ~NUMBER_MASK;
    return tag != 0 ? tag : NUMBER_MASK + 1;
}

static void put(uint64_t *table, uint32_t bits, uint64_t entry) {
    uint64_t mask = (1ull << bits) - 1, at = (entry >> MALLOW_STACK_BITS) & mask;
    while (table[at] != 0)
        at = (at + 1) & mask;
    table[at] = entry;
}

static int rebuild(struct numbers *n, uint32_t bits) {
    uint64_t *table = sys_memory(bytes(bits));
    if (table == NULL)
        return 0;
    uint64_t *hash = table + (1ull << bits);
    struct guess *after = (struct guess *)(hash + (1ull << (bits - 1)));
    for (uint32_t i = 0; i < n->count; i++)
        put(table, bits, tag_of(n->hash[i]) | i);
    if (n->table != NULL) {
        memcpy(hash, n->hash, n->count * sizeof *hash);
        memcpy(after, n->after, n->count * sizeof *after);
        sys_memory_free(n->table, bytes(n->bits));
    }
    n->table = table;
    n->hash = hash;
    n->after = after;
    n->bits = bits;
    return 1;
}

/* A handler that leaves by longjmp must not leave half of it: what is unmapped would be used, or unmapped again. */
COLD static int resize(struct numbers *n, uint32_t bits) {
    uint64_t mask = sys_block_signals();
    int made = rebuild(n, bits);
    sys_restore_signals(mask);
    return made;
}

int numbers_reset(struct numbers *n) {
    n->count = 0;
    n->last = 0;
    return resize(n, FIRST_BITS);
}

uint32_t numbers_add(struct numbers *n, uint64_t hash) {
    if (n->count >= NUMBERS_MOST || (n->count + 1 > 1u << (n->bits - 1) && !resize(n, n->bits + 1)))
        return NUMBER_NONE;
    uint32_t number = n->count++;
    put(n->table, n->bits, tag_of(hash) | number);
    n->hash[number] = hash;
    n->after[number] = (struct guess){0};
    return number;
}

uint32_t numbers_find(const struct numbers *n, uint64_t hash) {
    uint64_t tag = tag_of(hash), mask = (1ull << n->bits) - 1;
    for (uint64_t at = (tag >> MALLOW_STACK_BITS) & mask;; at = (at + 1) & mask) {
        uint64_t entry = n->table[at];
        if (entry == 0)
            return NUMBER_NONE;
        if ((entry & ~NUMBER_MASK) == tag && n->hash[entry & NUMBER_MASK] == hash)
            return (uint32_t)(entry & NUMBER_MASK);
    }
}

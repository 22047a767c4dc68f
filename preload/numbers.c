/* See numbers.h. */
#include "numbers.h"

#include <string.h>

#define NUMBER_MASK ((1ull << MALLOW_STACK_BITS) - 1)
#define FIRST_BITS  9u

_Static_assert(NUMBERS_MOST <= 1u << MALLOW_STACK_BITS, "a number fits into the wire's field");

/* The table and the array by number lie in one mapping: 8 bytes and half of 16 an entry. */
static uint64_t bytes(uint32_t bits) {
    return (8ull << bits) + (sizeof(struct known) << (bits - 1));
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

static int resize(struct numbers *n, uint32_t bits) {
    uint64_t *table = sys_memory(bytes(bits));
    if (table == NULL)
        return 0;
    struct known *known = (struct known *)(table + (1ull << bits));
    for (uint32_t i = 0; i < n->count; i++)
        put(table, bits, tag_of(n->known[i].hash) | i);
    if (n->count != 0)
        memcpy(known, n->known, n->count * sizeof *known);
    if (n->table != NULL)
        sys_unmap(n->table, bytes(n->bits));
    n->table = table;
    n->known = known;
    n->bits = bits;
    return 1;
}

int numbers_reset(struct numbers *n) {
    n->count = 0;
    n->last = 0;
    return resize(n, FIRST_BITS);
}

uint32_t numbers_add(struct numbers *n, uint64_t hash) {
    /* `next` of the newest guesses one further: there must be an entry, which its hash tells to be empty. */
    if (n->count >= NUMBERS_MOST || (n->count + 2 > 1u << (n->bits - 1) && !resize(n, n->bits + 1)))
        return NUMBER_NONE;
    uint32_t number = n->count++;
    put(n->table, n->bits, tag_of(hash) | number);
    n->known[number] = (struct known){.hash = hash, .next = number + 1};
    return number;
}

uint32_t numbers_search(const struct numbers *n, uint64_t hash) {
    uint64_t tag = tag_of(hash), mask = (1ull << n->bits) - 1;
    for (uint64_t at = (tag >> MALLOW_STACK_BITS) & mask;; at = (at + 1) & mask) {
        uint64_t entry = n->table[at];
        if (entry == 0)
            return NUMBER_NONE;
        if ((entry & ~NUMBER_MASK) == tag && n->known[entry & NUMBER_MASK].hash == hash)
            return (uint32_t)(entry & NUMBER_MASK);
    }
}

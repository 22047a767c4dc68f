/* Stack numbers: finding them, and growing the arrays by number.  */
#include "walk/numbers.h"

#define FIRST_ROOM 256u

_Static_assert(NUMBERS_MOST <= 1u << MALLOW_STACK_BITS, "a number fits into the wire's field");

/* Both arrays by number lie in one mapping. */
static uint64_t bytes(uint32_t room) {
    return room * (sizeof(uint64_t) + sizeof(struct guess));
}

struct search {
    const uint64_t *hashes;
    uint64_t hash;
};

static int has_hash(const void *context, uint32_t entry) {
    const struct search *search = context;
    return search->hashes[entry - 1] == search->hash;
}

static inline ALWAYS_INLINE uint64_t *find(const struct numbers *n, uint64_t hash) {
    return table_find(&n->table, hash, has_hash, &(struct search){n->hash, hash});
}

/* As table_grow. */
COLD static int grow(struct numbers *n) {
    uint64_t mask = sys_block_signals();
    uint32_t room = n->room != 0 ? 2 * n->room : FIRST_ROOM;
    uint64_t *hash = sys_memory(bytes(room));
    if (hash != NULL) {
        struct guess *after = (struct guess *)(hash + room);
        if (n->room != 0) {
            memcpy(hash, n->hash, n->room * sizeof *hash);
            memcpy(after, n->after, n->room * sizeof *after);
            sys_memory_free(n->hash, bytes(n->room));
        }
        n->hash = hash;
        n->after = after;
        n->room = room;
    }
    sys_restore_signals(mask);
    return hash != NULL;
}

int numbers_reset(struct numbers *n) {
    table_clear(&n->table);
    n->last = 0;
    return table_has_room(&n->table);
}

uint32_t numbers_add(struct numbers *n, uint64_t hash) {
    uint32_t number = n->table.used;
    if (number >= NUMBERS_MOST || !table_has_room(&n->table) || (number >= n->room && !grow(n)))
        return NUMBER_NONE;
    table_set(&n->table, find(n, hash), hash, number + 1);
    n->hash[number] = hash;
    n->after[number] = (struct guess){0};
    return number;
}

uint32_t numbers_find(const struct numbers *n, uint64_t hash) {
    return (uint32_t)*find(n, hash) - 1;
}

/* The table of samples in place.  */
#include "inplace/slot_table.h"
#include "arch.h"

#include <string.h>

/* An entry is (address / 8) << SLOT_TABLE_BITS | number, or one of these. Blocks are aligned to 8 bytes. */
#define NONE    0ull /* a search ends here */
#define REMOVED 1ull /* a search goes on */

/* Addresses have so many bits, unless a program asks the kernel for more. */
#define ADDRESS_BITS 47u
_Static_assert(ADDRESS_BITS - 3 + SLOT_TABLE_BITS < 64, "an entry is a word");

uint8_t slot_table_filter[1u << SLOT_TABLE_FILTER_BITS];
_Static_assert(SLOT_TABLE_FAR + (1u << (SLOT_TABLE_BITS + 1 - SLOT_TABLE_FILTER_BITS)) < 256,
               "a part's samples are a byte");

static uint64_t *table;
static uint32_t table_bits;

static uint64_t *entry_at(uint64_t at) {
    return &table[at & ((1ull << table_bits) - 1)];
}

static uint64_t home_of(const void *block) {
    return slot_table_hash(block) >> (64 - table_bits);
}

static uint64_t load(uint64_t at) {
    return __atomic_load_n(entry_at(at), __ATOMIC_ACQUIRE);
}

int slot_table_make(uint32_t most) {
    uint32_t bits = 6;
    while (1ull << bits < 2ull * most)
        bits++;
    table = sys_memory(sizeof *table << bits);
    table_bits = bits;
    return table != NULL;
}

void slot_table_unmake(void) {
    if (table != NULL)
        sys_memory_free(table, sizeof *table << table_bits);
    table = NULL;
    memset(slot_table_filter, 0, sizeof slot_table_filter);
}

int slot_table_add(const void *block, uint32_t number) {
    uint64_t home = home_of(block), address = (uint64_t)block;
    if (address >> ADDRESS_BITS != 0 || number >> SLOT_TABLE_BITS != 0)
        return 0;
    for (uint64_t at = home; at < home + SLOT_TABLE_FAR; at++) {
        if (load(at) > REMOVED)
            continue;
        __atomic_fetch_add(slot_table_part(block), 1, __ATOMIC_RELAXED);
        __atomic_store_n(entry_at(at), address / 8 << SLOT_TABLE_BITS | number, __ATOMIC_RELEASE);
        return 1;
    }
    return 0;
}

COLD uint32_t slot_table_find_and_remove(const void *block) {
    uint64_t home = home_of(block), entry;
    for (uint64_t at = home; at < home + SLOT_TABLE_FAR && (entry = load(at)) != NONE; at++) {
        if (entry >> SLOT_TABLE_BITS != (uint64_t)block / 8 || entry == REMOVED)
            continue;
        /* Two threads that free one block: it is the second one's mistake, and the allocator's to report. */
        if (!__atomic_compare_exchange_n(entry_at(at), &entry, REMOVED, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            return 0;
        __atomic_fetch_sub(slot_table_part(block), 1, __ATOMIC_RELAXED);
        return (uint32_t)(entry & ((1ull << SLOT_TABLE_BITS) - 1)) + 1;
    }
    return 0;
}

/* Removed entries before one that is none: a search that came so far would end at the next one. */
void slot_table_tidy(const void *block) {
    uint64_t home = home_of(block), at = home;
    while (load(at) != NONE)
        if (++at == home + SLOT_TABLE_FAR)
            return;
    /* From the other side of the table's border on, and not around it. */
    for (at += 1ull << table_bits; load(--at) == REMOVED;)
        __atomic_store_n(entry_at(at), NONE, __ATOMIC_RELEASE);
}

/* The range of guarded slots, its areas, and the rings by which slots become ready. */
#include "guard/guard_slots.h"
#include "base/filter.h"
#include "sample/sample_log.h"
#include "sample/slot.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/* A range below 2^it bytes is none. */
#define RANGE_LEAST 30u
/* An area is opened in steps of this, and not at once: see slot_pool.c. */
#define STEP        (4ull << 20)
#define ASK_FIRST   8u
#define RINGS_FIRST 4u
/* Open slots where pages are protected: each has two mappings of those that a process may have (vm.max_map_count,
 * 65,530 as a rule), and the program is to find some, too. */
#define OPEN_MOST 24000u
/* Freed slots of two pages that wait, at least, until one is used again; of slots of twice the size there are half
 * as many. Each costs some 250 bytes of tables and page tables, 32 MB in all, and what comes later is found less:
 * see docs/design/guard.md. */
#define QUARANTINE (1u << 17)

_Static_assert(sizeof(struct guard_more) <= sizeof((struct slot){0}.more), "it fits");

struct owned_range guard_range;
struct mallow_guard *guard_shared;
struct mallow_guarded *guard_table;
int guard_protects;

/* All slots of one size, with those that nobody has: the one that was freed first is used first. */
static struct area {
    uint32_t *index; /* as in struct slot_region; place 0 is never used, so that a missing page is before each slot */
    uint32_t places;
    uint32_t first, last; /* index + 1 */
    uint32_t freed;       /* that nobody has */
    uint64_t open;
} areas[MALLOW_GUARD_SIZES];

static struct supply {
    uint32_t asked, taken, batch;
    uint32_t slot[MALLOW_SUPPLY_SLOTS]; /* that were asked for, by their place in the ring */
} supplies[MALLOW_SUPPLIES];

static uint32_t area_bits, places_made, open_slots;
static uint64_t table_made; /* bytes of the table that exist */
static uint64_t random_state;

static uint32_t area_of(uint32_t pages) {
    return 32 - (uint32_t)__builtin_clz(pages);
}

uint32_t guard_pages(size_t bytes) {
    uint64_t pages = bytes > ARCH_PAGE ? (bytes + ARCH_PAGE - 1) / ARCH_PAGE : 1;
    return bytes < 1ull << 40 && pages < 1ull << (MALLOW_GUARD_SIZES - 1) ? (uint32_t)pages : 0;
}

/* The last region of the slot pool, whose only slot is as large as half of all addresses that programs have: nobody
 * asks for it as a rule, and nobody gets it from here on. */
int guard_reserve(void) {
    struct slot_region *region = &slot_regions[slot_region_bits - SLOT_SMALLEST];
    if (slot_region_bits < RANGE_LEAST || region->places != 0 || (region->index = sys_memory(ARCH_PAGE)) == NULL)
        return 0;
    region->places = 1;
    uint64_t bytes = 1ull << slot_region_bits;
    area_bits = slot_region_bits - 4;
    places_made = target.control->max_slots;
    guard_range.start = owned_range.start + owned_range.bytes - bytes;
    random_state = sys_now_ns() | 1;
    SYS_CALL3(SYS_madvise, guard_range.start, bytes, MADV_NOHUGEPAGE);
    __atomic_store_n(&guard_range.bytes, bytes, __ATOMIC_RELEASE);
    return 1;
}

uint64_t guard_now_ns(void) {
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0)
        return 0;
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void queue(struct area *area, struct slot *slot) {
    slot->next = 0;
    if (area->last != 0)
        slot_at(area->last - 1)->next = slot->index + 1;
    else
        area->first = slot->index + 1;
    area->last = slot->index + 1;
    area->freed++;
}

static struct slot *dequeue(struct area *area) {
    struct slot *slot = area->first != 0 ? slot_at(area->first - 1) : NULL;
    if (slot == NULL)
        return NULL;
    if ((area->first = slot->next) == 0)
        area->last = 0;
    area->freed--;
    return slot;
}

void guard_put(struct slot *slot) {
    open_slots -= (uint32_t)guard_protects;
    queue(&areas[slot->size - SLOT_SMALLEST], slot);
}

static int table_has_room(const struct slot *slot) {
    uint64_t end = (slot->index + 1ull) * sizeof *guard_table;
    if (slot->index >= sample_log->max_slots)
        return 0;
    if (end <= table_made)
        return 1;
    if (sys_populate((char *)guard_table + table_made, TABLE_PIECE) != 0)
        return 0;
    table_made += TABLE_PIECE;
    return end <= table_made || table_has_room(slot);
}

/* What the file says of a slot that is not live, or of one that a child has from its parent. */
static void table_write(struct slot *slot, uint32_t touched) {
    const struct guard_more *more = guard_more(slot);
    guard_table[slot->index] = (struct mallow_guarded){.start = slot->start,
                                                       .freed_ns = more->freed_ns,
                                                       .free_tid = more->free_tid,
                                                       .free_stack = more->free_stack,
                                                       .pages = more->pages,
                                                       .operation = more->operation,
                                                       .touched = touched};
}

void guard_allocated(struct slot *slot, enum mallow_operation operation, size_t alignment) {
    struct guard_more *more = guard_more(slot);
    more->operation = operation;
    more->alignment =
        operation >= MALLOW_OPERATION_NEW && alignment != 0 ? (uint8_t)(__builtin_ctzl(alignment) + 1) : 0;
    if (guard_has_part() && table_has_room(slot))
        guard_table[slot->index].operation = more->operation;
}

void guard_freed(struct slot *slot) {
    if (!guard_has_part() || !table_has_room(slot))
        return;
    struct mallow_guarded *entry = &guard_table[slot->index];
    entry->free_tid = guard_more(slot)->free_tid;
    entry->free_stack = guard_more(slot)->free_stack;
    __atomic_store_n(&entry->freed_ns, guard_more(slot)->freed_ns, __ATOMIC_RELEASE);
}

int guard_given(const struct slot *slot, uint32_t tid, uint64_t first) {
    if (!guard_has_part() || (slot->index + 1ull) * sizeof *guard_table > table_made)
        return 0;
    struct mallow_guarded *entry = &guard_table[slot->index];
    entry->free_stack = (uint32_t)first;
    __atomic_store_n(&entry->free_tid, tid, __ATOMIC_RELEASE);
    return !__atomic_load_n(&entry->touched, __ATOMIC_ACQUIRE);
}

int guard_not_given(const struct slot *slot) {
    struct mallow_guarded *entry = &guard_table[slot->index];
    entry->free_tid = entry->free_stack = 0;
    return (int)__atomic_load_n(&entry->touched, __ATOMIC_ACQUIRE);
}

void guard_begin(void) {
    table_made = 0;
    for (uint32_t i = 0; i < MALLOW_SUPPLIES; i++) {
        struct supply *supply = &supplies[i];
        for (; supply->taken != supply->asked; supply->taken++)
            guard_put(slot_at(supply->slot[supply->taken % MALLOW_SUPPLY_SLOTS]));
        supply->asked = supply->taken = guard_shared->supply[i].asked = guard_shared->supply[i].done = 0;
    }
    for (uint32_t i = 0; i < slots_count(); i++)
        if (guard_owns((void *)slot_at(i)->start) && table_has_room(slot_at(i)))
            table_write(slot_at(i), slot_at(i)->used != 1);
}

/* A slot that was never used. */
static struct slot *fresh(struct area *area, uint32_t k) {
    uint32_t bits = SLOT_SMALLEST + k, place = area->places != 0 ? area->places : 1;
    uint64_t end = (uint64_t)(place + 1) << bits, start = guard_range.start + ((uint64_t)k << area_bits);
    if (end > 1ull << area_bits || slots_count() >= sample_log->max_slots)
        return NULL;
    if (area->index == NULL && (area->index = sys_memory((uint64_t)places_made * sizeof *area->index)) == NULL)
        return NULL;
    if (place >= places_made)
        return NULL;
    if (end > area->open && !guard_protects) {
        uint64_t step = end - area->open > STEP ? end - area->open : STEP;
        if (area->open + step > 1ull << area_bits)
            step = (1ull << area_bits) - area->open;
        if (SYS_CALL3(SYS_mprotect, start + area->open, step, PROT_READ | PROT_WRITE) != 0)
            return NULL;
        /* Where the mapping is locked, that has filled it. */
        slot_memory_discard(start + area->open, step);
        area->open += step;
    }
    struct slot *slot = slot_add();
    if (slot == NULL)
        return NULL;
    slot->start = start + end - (1ull << bits);
    slot->size = (uint8_t)bits;
    area->index[place] = slot->index;
    __atomic_store_n(&area->places, place + 1, __ATOMIC_RELEASE);
    return slot;
}

/* The slot that was freed first, once as many wait as live blocks have one, and QUARANTINE; a fresh one before.
 * Where there are no fresh ones any more, the one that was freed first, too. */
static struct slot *next_slot(uint32_t k) {
    struct area *area = &areas[k];
    uint32_t others = area->places - area->freed, least = QUARANTINE >> (k - 1);
    struct slot *slot = area->freed <= (least > others ? least : others) ? fresh(area, k) : NULL;
    return slot != NULL ? slot : dequeue(area);
}

/* Asks for slots until `most` are on their way, or the ring is full. */
static void ask(struct supply *supply, uint32_t ring, uint32_t pages, uint32_t most) {
    uint32_t k = area_of(pages), before = supply->asked;
    while (supply->asked - supply->taken < most && supply->asked - supply->taken < MALLOW_SUPPLY_SLOTS) {
        struct slot *slot = next_slot(k);
        if (slot == NULL)
            break;
        if (!log_has_room(slot) || !table_has_room(slot)) {
            guard_put(slot);
            break;
        }
        /* Pages that the keeper filled to let a thread go on. */
        if (guard_table[slot->index].touched)
            guard_discard(slot);
        guard_more(slot)->pages = (uint16_t)pages;
        table_write(slot, 0);
        uint32_t place = supply->asked++ % MALLOW_SUPPLY_SLOTS;
        supply->slot[place] = slot->index;
        guard_shared->supply[ring].ready[place] = (struct mallow_ready){slot->start, pages, 0};
    }
    if (supply->asked != before) {
        __atomic_store_n(&guard_shared->supply[ring].asked, supply->asked, __ATOMIC_RELEASE);
        guard_wake();
    }
}

/* So that the first blocks of a program find some: the keeper makes these ready before it answers. */
void guard_ask_first(void) {
    for (uint32_t ring = 0; ring < RINGS_FIRST; ring++) {
        supplies[ring].batch = (target.control->flags & MALLOW_GUARD_EVERY) != 0 ? 2 * ASK_FIRST : 8 * ASK_FIRST;
        ask(&supplies[ring], ring, ring + 1, supplies[ring].batch);
    }
}

void guard_wake(void) {
    __atomic_fetch_add(&guard_shared->wanted, 1, __ATOMIC_RELEASE);
    if (!filter_is(FILTER_FORBIDS_SAMPLES)) /* the keeper looks from time to time, too */
        sys_futex_wake(&guard_shared->wanted);
}

int guard_was_used(void) {
    for (uint32_t k = 0; k < MALLOW_GUARD_SIZES; k++)
        if (areas[k].places != 0)
            return 1;
    return 0;
}

/* Nobody is asked: the slot's pages are the target's own to open. */
static struct slot *take_protected(uint32_t pages) {
    struct slot *slot = open_slots < OPEN_MOST ? next_slot(area_of(pages)) : NULL;
    if (slot == NULL)
        return NULL;
    open_slots++;
    int has_room = log_has_room(slot) && table_has_room(slot);
    if (has_room && guard_table[slot->index].touched)
        guard_discard(slot);
    /* Fails where the process has too many mappings all the same. */
    if (!has_room || SYS_CALL3(SYS_mprotect, slot->start, pages * ARCH_PAGE, PROT_READ | PROT_WRITE) != 0) {
        guard_put(slot);
        return NULL;
    }
    guard_more(slot)->pages = (uint16_t)pages;
    guard_more(slot)->patterned = 0;
    table_write(slot, 0);
    return slot;
}

/* The next one that is ready. */
static struct slot *take_ready(struct supply *supply, const struct mallow_supply *shared) {
    uint32_t place = supply->taken++ % MALLOW_SUPPLY_SLOTS;
    struct slot *slot = slot_at(supply->slot[place]);
    guard_more(slot)->patterned = (uint8_t)shared->ready[place].patterned;
    return slot;
}

struct slot *guard_take(uint32_t pages, struct mallow_supply **waits, uint32_t *seen) {
    *waits = NULL;
    if (guard_protects)
        return take_protected(pages);
    uint32_t ring = pages < MALLOW_SUPPLIES ? pages - 1 : MALLOW_SUPPLIES - 1;
    struct supply *supply = &supplies[ring];
    struct mallow_supply *shared = &guard_shared->supply[ring];
    uint32_t done = __atomic_load_n(&shared->done, __ATOMIC_ACQUIRE);
    if (ring == MALLOW_SUPPLIES - 1) { /* of different sizes: the first one that is ready may be of another */
        while (supply->taken != done) {
            struct slot *slot = take_ready(supply, shared);
            if (guard_more(slot)->pages == pages)
                return slot;
            guard_discard(slot);
            guard_put(slot);
        }
        ask(supply, ring, pages, supply->asked - supply->taken + 1);
    } else if (supply->taken != done) {
        struct slot *slot = take_ready(supply, shared);
        if (supply->asked - supply->taken < supply->batch / 2)
            ask(supply, ring, pages, supply->batch);
        return slot;
    } else {
        uint32_t most = MALLOW_SUPPLY_SLOTS;
        supply->batch = supply->batch == 0 ? ASK_FIRST : supply->batch < most ? supply->batch * 2 : most;
        ask(supply, ring, pages, supply->batch);
    }
    if (supply->asked != supply->taken) {
        *waits = shared;
        *seen = done;
    }
    return NULL;
}

void guard_discard(const struct slot *slot) {
    if (guard_protects && !filter_is(FILTER_FORBIDS_SAMPLES))
        SYS_CALL3(SYS_mprotect, slot->start, 1ull << slot->size, PROT_NONE);
    if (filter_is(FILTER_FORBIDS_SAMPLES) || slot_memory_discard(slot->start, 1ull << slot->size) == 0)
        return;
    /* Locked memory before Linux 5.18: nothing is found there, but a block of calloc is to have zeros. */
    if (guard_more((struct slot *)slot)->pages != 0)
        memset((void *)slot->start, 0, (uint64_t)guard_more((struct slot *)slot)->pages * ARCH_PAGE);
}

struct slot *guard_slot_of(const void *block) {
    uint64_t offset = (uint64_t)block - guard_range.start;
    const struct area *area = &areas[offset >> area_bits];
    uint64_t place = (offset & ((1ull << area_bits) - 1)) >> (SLOT_SMALLEST + (offset >> area_bits));
    return place > 0 && place < area->places ? slot_at(area->index[place]) : NULL;
}

/* ---- a block within its pages ---- */

static int at_the_end(void) {
    uint32_t place = target.control->guard_place;
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return place == MALLOW_PLACE_END || (place == MALLOW_PLACE_RANDOM && (random_state >> 32 & 1) != 0);
}

/* Of a page the block has zeros, and the rest the pattern; it holds one of both already. */
static void prepare_page(uint64_t page, int is_patterned, uint64_t block, uint64_t block_end) {
    uint64_t page_end = page + ARCH_PAGE;
    uint64_t from = block > page ? block : page, to = block_end < page_end ? block_end : page_end;
    if (is_patterned) {
        memset((void *)from, 0, to - from);
    } else {
        memset((void *)page, MALLOW_GUARD_PATTERN, from - page);
        memset((void *)to, MALLOW_GUARD_PATTERN, page_end - to);
    }
}

void *guard_fill(struct slot *slot, size_t size, size_t alignment) {
    uint64_t end = slot->start + (uint64_t)guard_more(slot)->pages * ARCH_PAGE, least = target.control->guard_alignment;
    uint64_t block = slot->start;
    if (alignment < least)
        alignment = least;
    if (at_the_end())
        block = (end - size) & ~(alignment - 1);
    /* What a slot has beside its block is less than a page on each side. */
    uint64_t last = end - ARCH_PAGE;
    uint8_t patterned = guard_more(slot)->patterned;
    prepare_page(slot->start, (patterned & MALLOW_PATTERNED_FIRST) != 0, block, block + size);
    if (last != slot->start)
        prepare_page(last, (patterned & MALLOW_PATTERNED_LAST) != 0, block, block + size);
    slot->usable = size;
    slot->used = 1;
    guard_more(slot)->freed_ns = guard_more(slot)->free_stack = 0;
    guard_more(slot)->reported = 0;
    return (void *)block;
}

/* 64 bytes at a time: nearly a page lies beside a small block, and each free looks at all of it. */
static const uint8_t *other_byte(const uint8_t *from, const uint8_t *to) {
    typedef uint64_t piece __attribute__((vector_size(16)));
    const uint64_t word = MALLOW_GUARD_PATTERN * 0x0101010101010101ull;
    const piece pattern = {word, word};
    for (piece at[4]; (size_t)(to - from) >= sizeof at; from += sizeof at) {
        memcpy(at, from, sizeof at);
        piece differs = (at[0] ^ pattern) | (at[1] ^ pattern) | (at[2] ^ pattern) | (at[3] ^ pattern);
        if (UNLIKELY((differs[0] | differs[1]) != 0))
            break;
    }
    while (from < to && *from == MALLOW_GUARD_PATTERN)
        from++;
    return from < to ? from : NULL;
}

const uint8_t *guard_damage(struct slot *slot) {
    const uint8_t *block = (const uint8_t *)slot->seen.address, *start = (const uint8_t *)slot->start;
    const uint8_t *behind = block + slot->usable + guard_more(slot)->reported;
    const uint8_t *after = other_byte(behind, start + (uint64_t)guard_more(slot)->pages * ARCH_PAGE);
    return after != NULL ? after : other_byte(start, block);
}

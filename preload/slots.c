/* See slots.h. */
#include "slots.h"
#include "filter.h"

#include <string.h>
#include <sys/resource.h>

#define PAGE 4096ull

/* Slots have 2^SMALLEST bytes at least. Regions have 2^REGION_MOST, where there is room for them: 256 GiB each, 7 TiB in
 * all, of which nothing but addresses is used. */
#define SMALLEST     12u
#define REGION_MOST  38u
#define REGION_LEAST 20u
#define SIZES        (REGION_MOST - SMALLEST + 1)

/* glibc's chunks: the header is two words before the block, and IS_MMAPPED is a bit of the second one. */
#define HEADER     16u
#define IS_MMAPPED 2u

/* Regions of slots that are smaller than a huge page must not get one for each. */
#define HUGE_PAGE_BITS 21u

/* A region is opened in steps of this, and not at once: mlockall would fill all that can be written to, and a system that
 * promises no more memory than it has would refuse it. */
#define STEP (1ull << 20)

/* A block of so many bytes is asked for as glibc asks: the system may refuse it, and would not refuse to open a slot. */
#define LARGE (64ull << 20)

struct slot_range slot_range;
_Static_assert(sizeof(struct slot) == 128, "a slot is two cache lines");

struct region {
    uint32_t *index; /* of slots, by their place; those below `places` are set */
    uint32_t places;
    uint32_t warm, warm_count, cold; /* lists: index + 1 */
    uint64_t open;                   /* bytes from its start on that can be written to */
};

static struct region regions[SIZES];
static uint32_t region_bits;
struct slot *slots;
static uint32_t count, most;
static uint64_t warm_bytes;
uint64_t slots_looked_ns;

static uint64_t region_start(uint32_t size) {
    return slot_range.start + ((uint64_t)(size - SMALLEST) << region_bits);
}

static uint64_t in_pages(uint64_t bytes) {
    return (bytes + PAGE - 1) & ~(PAGE - 1);
}

static uint64_t bytes_for(uint32_t bits) {
    return (uint64_t)(bits - SMALLEST + 1) << bits;
}

int slots_reserve(uint32_t slots_most) {
    uint64_t limit = sys_limit(RLIMIT_AS);
    for (uint32_t bits = REGION_MOST; bits >= REGION_LEAST; bits--) {
        /* A slot is aligned to its size: the first region begins at a multiple of the largest one. */
        uint64_t bytes = bytes_for(bits), start;
        if (limit != UINT64_MAX && bytes > limit / 16)
            continue;
        char *at = sys_reserve(bytes + (1ull << bits));
        if (at == NULL)
            continue;
        start = ((uint64_t)at + (1ull << bits) - 1) & ~((1ull << bits) - 1);
        if (start > (uint64_t)at)
            sys_unmap(at, start - (uint64_t)at);
        sys_unmap((char *)start + bytes, (uint64_t)at + (1ull << bits) - start);
        slots = sys_memory((uint64_t)slots_most * sizeof *slots);
        if (slots == NULL) {
            sys_unmap((void *)start, bytes);
            return 0;
        }
        uint64_t small = bits < HUGE_PAGE_BITS ? bytes : (uint64_t)(HUGE_PAGE_BITS - SMALLEST) << bits;
        sys_small_pages((void *)start, small);
        most = slots_most;
        region_bits = bits;
        slot_range.bytes = bytes;
        __atomic_store_n(&slot_range.start, start, __ATOMIC_RELEASE);
        return 1;
    }
    return 0;
}

uint32_t slots_count(void) {
    return count;
}

struct slot *slot_of(const void *block) {
    uint64_t offset = (uint64_t)block - slot_range.start;
    uint32_t which = (uint32_t)(offset >> region_bits);
    uint64_t place = (offset & ((1ull << region_bits) - 1)) >> (which + SMALLEST);
    const struct region *region = &regions[which];
    return place < region->places ? &slots[region->index[place]] : NULL;
}

/* ---- sizes ---- */

static uint64_t offset_of(size_t alignment) {
    return alignment > HEADER ? alignment : HEADER;
}

/* What glibc tells of a block of this size that is part of a heap: programs reckon with it. */
static uint64_t usable_for(size_t size) {
    uint64_t chunk = (size + 8 + 15) & ~15ull;
    return (chunk > 32 ? chunk : 32) - 8;
}

/* The smallest slots for such a block; 0: there are none. */
static uint32_t size_for(size_t size, size_t alignment) {
    if (size >= 1ull << REGION_MOST || alignment >= 1ull << REGION_MOST)
        return 0;
    uint64_t bytes = offset_of(alignment) + size;
    uint32_t bits = 64 - (uint32_t)__builtin_clzll(bytes - 1);
    bits = bits > SMALLEST ? bits : SMALLEST;
    return bits <= region_bits ? bits : 0;
}

static void set_size(struct slot *slot, uint64_t offset, size_t size) {
    uint64_t usable = usable_for(size), room = (1ull << slot->size) - offset;
    slot->usable = usable < room ? usable : room;
    uint64_t used = offset + slot->usable, chunk = offset - HEADER;
    uint64_t header[2] = {chunk, (in_pages(used) - chunk) | IS_MMAPPED};
    memcpy((char *)slot->start + chunk, header, sizeof header);
    slot->used = used > slot->used ? used : slot->used;
}

int slot_fits(const struct slot *slot, size_t size) {
    uint64_t offset = slot->seen.address - slot->start;
    return size <= (1ull << slot->size) - offset;
}

void slot_resize(struct slot *slot, size_t size) {
    uint64_t offset = slot->seen.address - slot->start, before = in_pages(slot->used);
    set_size(slot, offset, size);
    uint64_t after = in_pages(offset + slot->usable);
    if (after < before && sys_discard((char *)slot->start + after, before - after) == 0)
        slot->used = after;
}

void *slot_fill(struct slot *slot, size_t size, size_t alignment, size_t *stale) {
    uint64_t offset = offset_of(alignment), used = slot->used;
    *stale = used > offset ? used - offset : 0;
    set_size(slot, offset, size);
    slot->seen.address = slot->start + offset;
    return (void *)slot->seen.address;
}

/* ---- taking and putting ---- */

/* A slot that was never used. Its region may have to be opened further, and its index to be made. */
COLD static struct slot *carve(struct region *region, uint32_t size) {
    uint64_t end = (uint64_t)(region->places + 1) << size;
    if (count >= most || end > 1ull << region_bits)
        return NULL;
    if (region->index == NULL && (region->index = sys_memory((uint64_t)most * sizeof *region->index)) == NULL)
        return NULL;
    if (end > region->open) {
        uint64_t step = end - region->open > STEP ? end - region->open : STEP;
        if (region->open + step > 1ull << region_bits)
            step = (1ull << region_bits) - region->open;
        if (sys_open_memory((char *)region_start(size) + region->open, step) != 0)
            return NULL;
        region->open += step;
    }
    struct slot *slot = &slots[count];
    slot->start = region_start(size) + end - (1ull << size);
    slot->size = (uint8_t)size;
    region->index[region->places] = count++;
    __atomic_store_n(&region->places, region->places + 1, __ATOMIC_RELEASE);
    return slot;
}

static struct slot *pop(uint32_t *list) {
    struct slot *slot = &slots[*list - 1];
    *list = slot->next;
    return slot;
}

static void push(uint32_t *list, struct slot *slot) {
    slot->next = *list;
    *list = slot_index(slot) + 1;
}

struct slot *slot_take(size_t size, size_t alignment) {
    uint32_t bits = size_for(size, alignment);
    if (bits == 0 || (size >= LARGE && !sys_has_memory(size)))
        return NULL;
    struct region *region = &regions[bits - SMALLEST];
    if (region->warm != 0) {
        struct slot *slot = pop(&region->warm);
        region->warm_count--;
        warm_bytes -= in_pages(slot->used);
        return slot;
    }
    return region->cold != 0 ? pop(&region->cold) : carve(region, bits);
}

int slot_put(struct slot *slot) {
    struct region *region = &regions[slot->size - SMALLEST];
    uint64_t bytes = in_pages(slot->used);
    slot->usable = 0;
    if (region->warm_count >= SLOTS_WARM_EACH || warm_bytes + bytes > SLOTS_WARM_BYTES)
        return 1;
    region->warm_count++;
    warm_bytes += bytes;
    push(&region->warm, slot);
    return 0;
}

void slot_clean(struct slot *slot) {
    if (!filter_is_strict() && sys_discard((void *)slot->start, in_pages(slot->used)) == 0)
        slot->used = 0;
}

void slot_put_clean(struct slot *slot) {
    push(&regions[slot->size - SMALLEST].cold, slot);
}

COLD struct slot *slots_cool(uint64_t now_ns) {
    slots_looked_ns = now_ns;
    uint32_t list = 0;
    for (uint32_t i = 0; i < SIZES; i++) {
        while (regions[i].warm != 0)
            push(&list, pop(&regions[i].warm));
        regions[i].warm_count = 0;
    }
    warm_bytes = 0;
    return list != 0 ? &slots[list - 1] : NULL;
}

struct slot *slot_next(const struct slot *slot) {
    return slot->next != 0 ? &slots[slot->next - 1] : NULL;
}

/* The slot pool: reserving addresses, opening regions, giving memory back.  */
#include "base/filter.h"
#include "sample/slot.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

/* Regions are halved down to this where there is no room for larger ones. */
#define SLOT_REGION_LEAST 20u

/* Regions of slots that are smaller than a huge page must not get one for each. */
#define HUGE_PAGE_BITS 21u

/* MADV_DONTNEED_LOCKED of Linux 5.18: not every C library names it. */
#define DONTNEED_LOCKED 24

/* A region is opened in steps of this, and not at once: mlockall would fill all that can be written to, and a system
 * that promises no more memory than it has would refuse it. Smaller ones where RLIMIT_DATA is low, which counts
 * them. */
#define STEP (1ull << 20)

static uint64_t step_bytes(void) {
    uint64_t share = sys_data_limit() / 256 & ~(ARCH_PAGE - 1);
    return share < STEP ? share : STEP;
}

_Static_assert(sizeof(struct slot) == 128, "a slot is two cache lines");

struct slot_region slot_regions[SLOT_SIZES];
uint32_t slot_region_bits;
struct slot *slots;
static uint32_t count, most;
uint64_t slots_cached_bytes;
uint64_t slots_idle_check_ns;

static uint64_t region_start(uint32_t size) {
    return owned_range.start + ((uint64_t)(size - SLOT_SMALLEST) << slot_region_bits);
}

static uint64_t bytes_for(uint32_t bits) {
    return (uint64_t)(bits - SLOT_SMALLEST + 1) << bits;
}

static void *map(size_t bytes, int rights, int flags) {
    long at = SYS_CALL6(SYS_mmap, 0, bytes, rights, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    return at < 0 && at > -4096 ? NULL : (void *)at;
}

int slot_memory_allowed(size_t bytes) {
    void *start = map(bytes, PROT_READ | PROT_WRITE, 0);
    if (start != NULL)
        sys_unmap(start, bytes);
    return start != NULL;
}

long slot_memory_discard(uint64_t start, size_t bytes) {
    long result = SYS_CALL3(SYS_madvise, start, bytes, MADV_DONTNEED);
    if (UNLIKELY(result == -EINVAL) && !filter_is(FILTER_SEEN)) /* locked memory, as of mlockall */
        result = SYS_CALL3(SYS_madvise, start, bytes, DONTNEED_LOCKED);
    return result;
}

uint32_t slots_make(uint32_t slots_most) {
    while (slots_most > 1 && slots_most * sizeof *slots > sys_data_limit() / 32)
        slots_most /= 2;
    slots = sys_memory((uint64_t)slots_most * sizeof *slots);
    most = slots != NULL ? slots_most : 0;
    return most;
}

void slots_unmake(void) {
    if (slots != NULL)
        sys_memory_free(slots, (uint64_t)most * sizeof *slots);
    slots = NULL;
    count = most = 0;
}

struct slot *slot_add(void) {
    if (count >= most)
        return NULL;
    slots[count].index = count;
    return &slots[count++];
}

int slots_reserve(uint32_t slots_most) {
    uint64_t limit = sys_limit(RLIMIT_AS);
    for (uint32_t bits = SLOT_REGION_MOST; bits >= SLOT_REGION_LEAST; bits--) {
        /* A slot is aligned to its size: the first region begins at a multiple of the largest one. */
        uint64_t bytes = bytes_for(bits), start;
        if (limit != UINT64_MAX && bytes > limit / 16)
            continue;
        char *at = map(bytes + (1ull << bits), PROT_NONE, MAP_NORESERVE);
        if (at == NULL)
            continue;
        start = ((uint64_t)at + (1ull << bits) - 1) & ~((1ull << bits) - 1);
        if (start > (uint64_t)at)
            sys_unmap(at, start - (uint64_t)at);
        sys_unmap((char *)start + bytes, (uint64_t)at + (1ull << bits) - start);
        if (slots_make(slots_most) == 0) {
            sys_unmap((void *)start, bytes);
            return 0;
        }
        uint64_t small = bits < HUGE_PAGE_BITS ? bytes : (uint64_t)(HUGE_PAGE_BITS - SLOT_SMALLEST) << bits;
        SYS_CALL3(SYS_madvise, start, small, MADV_NOHUGEPAGE);
        slot_region_bits = bits;
        owned_range.bytes = bytes;
        sys_own((void *)start, bytes, MALLOW_OWN_SLOTS);
        __atomic_store_n(&owned_range.start, start, __ATOMIC_RELEASE);
        return 1;
    }
    return 0;
}

uint64_t slots_bytes(void) {
    return (uint64_t)most * sizeof *slots;
}

uint32_t slots_count(void) {
    return count;
}

/* ---- taking and putting ---- */

/* A slot that was never used. Its region may have to be opened further, and its index to be made. */
COLD struct slot *slot_new(struct slot_region *region, uint32_t size) {
    uint64_t end = (uint64_t)(region->places + 1) << size;
    if (count >= most || end > 1ull << slot_region_bits)
        return NULL;
    if (region->index == NULL && (region->index = sys_memory((uint64_t)most * sizeof *region->index)) == NULL)
        return NULL;
    if (end > region->open) {
        uint64_t step = end - region->open > step_bytes() ? end - region->open : step_bytes();
        if (region->open + step > 1ull << slot_region_bits)
            step = (1ull << slot_region_bits) - region->open;
        if (SYS_CALL3(SYS_mprotect, region_start(size) + region->open, step, PROT_READ | PROT_WRITE) != 0)
            return NULL;
        region->open += step;
    }
    struct slot *slot = slot_add();
    slot->start = region_start(size) + end - (1ull << size);
    slot->size = (uint8_t)size;
    region->index[region->places] = slot->index;
    __atomic_store_n(&region->places, region->places + 1, __ATOMIC_RELEASE);
    return slot;
}

void slot_discard(struct slot *slot) {
    if (!filter_is(FILTER_FORBIDS_SAMPLES) && slot_memory_discard(slot->start, slot_in_pages(slot->used)) == 0)
        slot->used = 0;
}

void slot_put_discarded(struct slot *slot) {
    slot_push(&slot_regions[slot->size - SLOT_SMALLEST].discarded, slot);
}

COLD struct slot *slots_take_idle(uint64_t now_ns) {
    slots_idle_check_ns = now_ns;
    uint32_t list = 0;
    for (uint32_t i = 0; i < SLOT_SIZES; i++) {
        while (slot_regions[i].cached != 0)
            slot_push(&list, slot_pop(&slot_regions[i].cached));
        slot_regions[i].cached_count = 0;
    }
    slots_cached_bytes = 0;
    return list != 0 ? &slots[list - 1] : NULL;
}

struct slot *slot_next(const struct slot *slot) {
    return slot->next != 0 ? &slots[slot->next - 1] : NULL;
}

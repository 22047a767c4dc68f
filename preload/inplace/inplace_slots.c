/* Slots of samples in place: taking, ending, and deferred ends.  */
#include "inplace/inplace_slots.h"
#include "base/filter.h"
#include "base/target.h"
#include "sample/sample_log.h"
#include "sample/usdt.h"

uint32_t inplace_slots_deferred; /* a list: index + 1 */
static uint32_t unused;          /* the same: slots whose samples ended */

int inplace_slots_make(uint32_t most) {
    if (slots != NULL)
        return 1;
    most = slots_make(most < 1u << SLOT_TABLE_BITS ? most : 1u << SLOT_TABLE_BITS);
    if (most != 0 && slot_table_make(most))
        return 1;
    inplace_slots_left();
    return 0;
}

void inplace_slots_left(void) {
    slot_table_unmake();
    slots_unmake();
    unused = inplace_slots_deferred = 0;
}

static void put(struct slot *slot) {
    slot->next = unused;
    unused = slot_index(slot) + 1;
}

struct slot *inplace_slot_take(const void *block) {
    /* A free that nobody saw, as by a function that is not patched: the allocator has given its block away again. */
    struct slot *stale = inplace_slot_remove(block);
    if (UNLIKELY(stale != NULL))
        inplace_slot_end(stale, sys_tick_ns(), 0, 0, MALLOW_END_FREED, NULL);
    struct slot *slot = unused != 0 ? slot_at(unused - 1) : slot_add();
    if (slot == NULL)
        return NULL;
    if (unused != 0)
        unused = slot->next;
    if (log_has_room(slot) && slot_table_add(block, slot_index(slot)))
        return slot;
    put(slot);
    return NULL;
}

int inplace_slot_restore(struct slot *slot) {
    return slot_table_add((const void *)slot->seen.address, slot_index(slot));
}

void inplace_slot_end(struct slot *slot, uint64_t now_ns, uint32_t tid, uint32_t stack, uint32_t kind,
                      const void *moved_to) {
    if (kind == MALLOW_END_FREED)
        probe_free(&slot->seen);
    log_end(slot, now_ns, tid, stack, kind, moved_to);
    slot_table_tidy((const void *)slot->seen.address);
    put(slot);
}

COLD void inplace_slot_defer(struct slot *slot, uint32_t kind) {
    slot->used = kind;
    slot->usable = filter_is(FILTER_FORBIDS_SAMPLES) ? 0 : thread_id();
    slot->next = __atomic_load_n(&inplace_slots_deferred, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&inplace_slots_deferred, &slot->next, slot_index(slot) + 1, 1, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED))
        ;
}

COLD void inplace_slots_end_deferred(void) {
    uint32_t list = __atomic_exchange_n(&inplace_slots_deferred, 0, __ATOMIC_ACQUIRE);
    while (list != 0) {
        struct slot *slot = slot_at(list - 1);
        list = slot->next;
        inplace_slot_end(slot, sys_tick_ns(), (uint32_t)slot->usable, 0, (uint32_t)slot->used, NULL);
    }
}

/*
 * The sample log: the live samples, ends of samples and stacks in the process file. preload/base/wire.h draws them.
 *
 * Call with sample_lock held, but for log_layout. Where there is no file, or no room in it, all of this does nothing
 * but count.
 */
#ifndef MALLOW_SAMPLE_LOG_H
#define MALLOW_SAMPLE_LOG_H

#include "arch.h"
#include "sample/slot_pool.h"
#include "walk/unwind.h"

/* Lays out the policy's part of a process file. Returns its end; UINT64_MAX: it does not fit. */
uint64_t log_layout(struct mallow_sampling *sampling, const struct file_layout *layout);

/* Makes the head of a new file's part exist, laid out anew. 0: there is no memory. */
int log_map(struct mallow_process *process, const struct file_layout *layout);
/* The process file is there: begins its log. A forked child's begins with what its parent's had. */
void log_open(void);
/* In a forked child: nothing may be written to its parent's. */
void log_forget(void);
/* The process leaves its run: the next file has nothing of this one. */
void log_left(void);

/* The number of the stack that was walked; 0: it finds no room. */
uint32_t log_stack(const struct unwinder *unwinder, uint32_t generation);

/* Numbers of the file, NULL before there is one. */
extern struct mallow_sampling *sample_log HIDDEN;

extern int sample_is_over HIDDEN;

/* Nothing is picked from here on; slots are served to the end. */
void sample_over(enum mallow_over why);

/* Its entries; of the ends, how many exist. */
extern struct mallow_slot *log_slots HIDDEN;
extern struct mallow_end *log_ends HIDDEN;
extern uint64_t log_ends_room HIDDEN;
/* The last sample's. A child goes on from its parent's. */
extern uint64_t log_ids HIDDEN;

int log_make_room(uint32_t index);
/* 0: there is no room for the entry of a slot. Others may be written then. */
static inline int log_has_room(const struct slot *slot) {
    return LIKELY(sample_log != NULL) &&
           (LIKELY(slot_index(slot) < sample_log->slots) || log_make_room(slot_index(slot)));
}

int log_make_end_room(uint64_t place);
/* Another quarter of the ends was written: mallow, which looks seldom at what is quiet, is to look before they are
 * overwritten. Nobody waits for that, so nobody is woken. */
COLD void log_ring_quarter(void);

/* ---- what each sample needs: inlined where it begins and ends ---- */

/* All but the sequence. Field by field, as they are written: a wider load would wait until all of them have reached the
 * cache, which is 8 ns where a sample ends as soon as it began. */
static inline ALWAYS_INLINE void log_copy(struct mallow_slot *to, const struct mallow_slot *sample) {
    to->address = sample->address;
    to->size = sample->size;
    to->began_ns = sample->began_ns;
    to->period = sample->period;
    to->tid = sample->tid;
    to->stack = sample->stack;
    to->family = sample->family;
    to->flags = sample->flags;
    to->id = sample->id;
}

/* Writes the entry of a slot. No reader takes it for a live sample meanwhile. */
static inline ALWAYS_INLINE void log_write(const struct slot *slot, const struct mallow_slot *sample) {
    struct mallow_slot *entry = &log_slots[slot_index(slot)];
    __atomic_store_n(&entry->sequence, (sample->sequence & ~3ull) | MALLOW_SLOT_BUSY, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    log_copy(entry, sample);
    __atomic_store_n(&entry->sequence, sample->sequence, __ATOMIC_RELEASE);
    if (UNLIKELY(slot_index(slot) >= sample_log->slots))
        __atomic_store_n(&sample_log->slots, slot_index(slot) + 1, __ATOMIC_RELEASE);
}

/* A sample began in this slot: all of it but sequence and number, which it is given. Precondition: log_has_room. */
static inline ALWAYS_INLINE void log_begin(struct slot *slot, struct mallow_slot sample) {
    sample.sequence = (slot->seen.sequence & ~3ull) + 4 + MALLOW_SLOT_LIVE;
    sample.id = ++log_ids;
    log_copy(&slot->seen, &sample);
    slot->seen.sequence = sample.sequence;
    __atomic_store_n(&sample_log->begun, sample_log->begun + 1, __ATOMIC_RELAXED);
    log_write(slot, &sample);
}

/* It ended. */
static inline ALWAYS_INLINE void log_end(struct slot *slot, uint64_t now_ns, uint32_t tid, uint32_t stack,
                                         uint32_t kind, const void *moved_to) {
    uint64_t over = slot->seen.sequence & ~3ull;
    if (UNLIKELY(sample_log == NULL)) {
        slot->seen.sequence = over;
        return;
    }
    uint64_t number = sample_log->ended, place = number & (sample_log->max_ends - 1);
    if (LIKELY(place < log_ends_room) || log_make_end_room(place)) {
        struct mallow_end *end = &log_ends[place];
        __atomic_store_n(&end->number, 0, __ATOMIC_RELAXED);
        __atomic_thread_fence(__ATOMIC_RELEASE);
        log_copy(&end->sample, &slot->seen);
        end->sample.sequence = slot->seen.sequence;
        end->ended_ns = now_ns;
        end->moved_to = (uint64_t)moved_to;
        end->tid = tid;
        end->stack = stack;
        end->slot = slot_index(slot);
        end->kind = kind;
        __atomic_store_n(&end->number, number + 1, __ATOMIC_RELEASE);
        /* The next one was written a whole ring ago: it is in no cache near. */
        arch_prefetch_to_write(end + 1);
        arch_prefetch_to_write((char *)(end + 1) + 64);
    }
    slot->seen.sequence = over;
    __atomic_store_n(&sample_log->ended, number + 1, __ATOMIC_RELEASE);
    /* After the end is published: a reader finds the sample in one of the two. */
    if (LIKELY(slot_index(slot) < sample_log->slots))
        __atomic_store_n(&log_slots[slot_index(slot)].sequence, over, __ATOMIC_RELEASE);
    if (UNLIKELY((place & (sample_log->max_ends / 4 - 1)) == 0))
        log_ring_quarter();
}

#endif

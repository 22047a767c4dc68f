/* Making room in the sample log, its stacks, and a forked child's copy.  */
#include "sample/sample_log.h"
#include "arch.h"
#include "base/attachment.h"
#include "base/backoff.h"
#include "base/filter.h"
#include "base/target.h"
#include "sample/sample.h"
#include "walk/table.h"

/* Pages of the file are made to exist in pieces of these many bytes. */
#define ENDS_PIECE   (64ul << 10)
#define STACKS_PIECE (16ul << 10)

struct mallow_sampling *sample_log;
struct mallow_slot *log_slots;
struct mallow_end *log_ends;
uint64_t log_ends_room, log_ids;
static char *stacks;

/* How far each part exists, in bytes. */
static uint64_t slots_made, ends_made, stacks_made;
/* The file system is full. */
static struct backoff full;
static uint64_t stacks_used;

/* Stacks by hash: their numbers. What these point to lies in the file. */
static struct table stack_table;

static uint64_t in_pages(uint64_t bytes) {
    return (bytes + ARCH_PAGE - 1) & ~(ARCH_PAGE - 1);
}

uint64_t log_layout(struct mallow_sampling *s, const struct file_layout *layout) {
    const struct mallow_control *control = target.control;
    uint32_t max_ends = control->max_ends;
    for (int half = 0; half < 8; half++) {
        *s = (struct mallow_sampling){
            .max_slots = control->max_slots >> half,
            .max_ends = max_ends >> half,
            .stacks_bytes = control->stack_bytes >> half & ~7ull,
        };
        s->slots_offset = in_pages(layout->part + sizeof *s);
        s->ends_offset = s->slots_offset + in_pages((uint64_t)s->max_slots * sizeof(struct mallow_slot));
        s->stacks_offset = s->ends_offset + in_pages((uint64_t)s->max_ends * sizeof(struct mallow_end));
        uint64_t bytes = in_pages(s->stacks_offset + s->stacks_bytes);
        if (guarding != NULL && !attachment_is_late())
            bytes = in_pages(guarding->layout(bytes, s->max_slots));
        if (bytes <= layout->most && s->max_slots > 0 && s->max_ends > 0 && (max_ends & (max_ends - 1)) == 0)
            return bytes;
    }
    return UINT64_MAX;
}

int log_map(struct mallow_process *process, const struct file_layout *layout) {
    struct mallow_sampling *sampling = (struct mallow_sampling *)((char *)process + layout->part), laid_out;
    if (log_layout(&laid_out, layout) == UINT64_MAX || sys_populate(sampling, sizeof *sampling) != 0)
        return 0;
    *sampling = laid_out;
    process->sampling = layout->part;
    return 1;
}

/* Makes the part's next piece exist, up to `bytes` at least. 0: there is no memory for it. */
static int extend_part(void *part, uint64_t *made, uint64_t bytes, uint64_t piece, uint64_t most) {
    if (LIKELY(bytes <= *made))
        return 1;
    uint64_t end = (bytes + piece - 1) / piece * piece;
    end = end < in_pages(most) ? end : in_pages(most);
    if (bytes > end || filter_is(FILTER_FORBIDS_SAMPLES) || backoff_waits(&full))
        return 0;
    if (sys_populate((char *)part + *made, end - *made) != 0) {
        backoff_refused(&full);
        return 0;
    }
    full = (struct backoff){0};
    *made = end;
    return 1;
}

static int extend_slots(uint32_t slots) {
    uint64_t size = sizeof *log_slots;
    return extend_part(log_slots, &slots_made, slots * size, ARCH_PAGE, sample_log->max_slots * size);
}

static int extend_stacks(uint64_t bytes) {
    return bytes <= sample_log->stacks_bytes &&
           extend_part(stacks, &stacks_made, bytes, STACKS_PIECE, sample_log->stacks_bytes);
}

int sample_is_over;

void sample_over(enum mallow_over why) {
    __atomic_store_n(&sample_is_over, 1, __ATOMIC_RELAXED);
    if (sample_log != NULL && why != MALLOW_OVER_NOT)
        __atomic_store_n(&sample_log->over, why, __ATOMIC_RELAXED);
}

/* ---- stacks ---- */

static struct mallow_stack *stack_at(uint32_t number) {
    return (struct mallow_stack *)(stacks + 8ull * number);
}

static uint64_t stack_bytes(uint32_t depth) {
    return sizeof(struct mallow_stack) + 8ull * depth;
}

struct search {
    uint64_t hash;
    uint32_t depth;
};

static int is_stack(const void *context, uint32_t number) {
    const struct search *search = context;
    return stack_at(number)->hash == search->hash && stack_at(number)->depth == search->depth;
}

static uint32_t stack_add(const struct unwinder *u, uint64_t hash, uint32_t generation) {
    uint64_t at = stacks_used, bytes = stack_bytes(u->depth);
    if (!extend_stacks(at + bytes))
        return 0;
    struct mallow_stack *stack = (struct mallow_stack *)(stacks + at);
    *stack = (struct mallow_stack){
        .hash = hash, .depth = u->depth, .generation = generation, .flags = u->cut ? MALLOW_FLAG_CUT : 0};
    for (uint32_t i = 0; i < u->depth; i++)
        stack->pc[i] = u->places[i].pc;
    stacks_used = at + bytes;
    __atomic_store_n(&sample_log->stacks_used, stacks_used, __ATOMIC_RELEASE);
    return (uint32_t)(at / 8);
}

uint32_t log_stack(const struct unwinder *u, uint32_t generation) {
    if (sample_log == NULL)
        return 0;
    uint64_t hash = u->states[u->depth - 1].hash ^ generation * 0x9e3779b97f4a7c15ull;
    uint32_t number = 0;
    if (table_has_room(&stack_table)) {
        uint64_t *entry = table_find(&stack_table, hash, is_stack, &(struct search){hash, u->depth});
        number = (uint32_t)*entry;
        if (number == 0 && (number = stack_add(u, hash, generation)) != 0)
            table_set(&stack_table, entry, hash, number);
    }
    if (UNLIKELY(number == 0))
        sample_log->without_stack++;
    return number;
}

/* ---- samples ---- */

int log_make_room(uint32_t at) {
    return at < sample_log->max_slots && extend_slots(at + 1);
}

COLD int log_make_end_room(uint64_t place) {
    uint64_t bytes = (place + 1) * sizeof *log_ends;
    int made = extend_part(log_ends, &ends_made, bytes, ENDS_PIECE, sample_log->max_ends * sizeof *log_ends);
    log_ends_room = ends_made / sizeof *log_ends;
    return made;
}

COLD void log_ring_quarter(void) {
    __atomic_fetch_add(&target.control->doorbell, 1, __ATOMIC_RELEASE);
    if (__atomic_load_n(&target.control->asleep, __ATOMIC_RELAXED) && !filter_is(FILTER_FORBIDS_SAMPLES))
        sys_futex_wake(&target.control->doorbell);
}

/* ---- a new file ---- */

/* What the child of a fork has from its parent: it frees these blocks, and they are part of its heap. */
static void inherit(const char *parents_stacks) {
    if (stacks_used > sizeof(uint64_t) && extend_stacks(stacks_used)) {
        memcpy(stacks, parents_stacks, stacks_used);
        __atomic_store_n(&sample_log->stacks_used, stacks_used, __ATOMIC_RELEASE);
    } else {
        stacks_used = sizeof(uint64_t);
        table_clear(&stack_table);
    }
    for (uint32_t i = 0; i < slots_count(); i++) {
        struct slot *slot = slot_at(i);
        int live = (slot->seen.sequence & 3) == MALLOW_SLOT_LIVE;
        if (live)
            slot->seen.flags |= MALLOW_SAMPLE_INHERITED;
        if (live && stacks_used == sizeof(uint64_t))
            slot->seen.stack = 0;
        if (i < sample_log->max_slots && extend_slots(i + 1))
            log_write(slot, &slot->seen);
        else if (live)
            sample_log->without_slot++;
    }
}

void log_forget(void) {
    sample_log = NULL;
}

void log_left(void) {
    sample_log = NULL;
    stacks_used = 0;
    full = (struct backoff){0};
}

void log_open(void) {
    struct mallow_process *process = target.process;
    const char *parents_stacks = stacks;
    sample_log = (struct mallow_sampling *)((char *)process + process->sampling);
    log_slots = (struct mallow_slot *)((char *)process + sample_log->slots_offset);
    log_ends = (struct mallow_end *)((char *)process + sample_log->ends_offset);
    stacks = (char *)process + sample_log->stacks_offset;
    slots_made = ends_made = stacks_made = log_ends_room = 0;
    inherit(parents_stacks);
}

/* See story.h. */
#include "story.h"
#include "test.h"

#include <stdarg.h>

#define TEXT 8192

static const char *const family_name[MALLOW_FAMILY_COUNT] = {
    "malloc", "calloc", "realloc", "reallocarray", "aligned_alloc", "memalign", "posix_memalign", "valloc", "pvalloc",
};

__attribute__((format(printf, 2, 3))) static void say(char *text, const char *format, ...) {
    size_t used = strlen(text);
    va_list list;
    va_start(list, format);
    vsnprintf(text + used, TEXT - used, format, list);
    va_end(list);
}

/* ---- counters ---- */

static void say_count(char *text, const char *name, uint64_t count) {
    if (count != 0)
        say(text, "%s%s %lu", *text ? ", " : "", name, count);
}

const char *counts_text(const struct image *image) {
    char *text = calloc(1, TEXT);
    struct sums sums = image_sums(image);
    for (int family = 0; family < MALLOW_FAMILY_COUNT; family++) {
        const struct mallow_counter *counter = &sums.counter[family];
        CHECK(counter->allocations != 0 || counter->bytes == 0);
        if (counter->allocations != 0)
            say(text, "%s%s %lu/%lu", *text ? ", " : "", family_name[family], counter->allocations, counter->bytes);
    }
    say_count(text, "frees", sums.frees);
    say_count(text, "realloc_frees", sums.realloc_frees);
    say_count(text, "in_place", sums.realloc_in_place);
    say_count(text, "moved", sums.realloc_moved);
    say_count(text, "lost", sums.lost);
    say_count(text, "unrecorded", image->process->unrecorded);
    return text;
}

/* ---- records ---- */

static int carries_stack(uint64_t op) {
    return op >= MALLOW_OP_ALLOC || op == MALLOW_OP_REALLOC_DONE;
}

static void *grown(void *array, size_t count, size_t size) {
    if ((count & (count - 1)) == 0)
        array = realloc(array, 2 * (count + 1) * size);
    CHECK(array != NULL);
    return array;
}

/* `first` is the stack that has number 0 now, `last` the one that was defined
 * or used last. */
static void define_stack(struct story *story, const uint64_t *record, size_t first, const struct story_stack *last) {
    uint32_t keep = record[0] >> 32 & 0xffff, fresh = record[0] & 0xffff;
    CHECK(keep <= (last != NULL ? last->depth : 0) && keep + fresh > 0);
    CHECK(story->stacks - first < 1u << MALLOW_STACK_BITS);
    struct story_stack stack = {calloc(keep + fresh, 8), keep + fresh, (record[0] >> 48 & MALLOW_FLAG_CUT) != 0};
    for (uint32_t i = 0; i < keep; i++)
        stack.pc[i] = last->pc[i];
    for (uint32_t i = 0; i < fresh; i++)
        stack.pc[keep + i] = record[1 + i];
    story->stack = grown(story->stack, story->stacks, sizeof stack);
    story->stack[story->stacks++] = stack;
}

struct story story_of(const struct words *words) {
    struct story story = {0};
    size_t first = 0, last = SIZE_MAX; /* no stack used yet */
    int thread = 0, numbered = 0;
    uint64_t time = 0, order = 0;
    const uint64_t *brought = NULL; /* the last word of size and stack */
    for (size_t at = 0; at < words->count;) {
        const uint64_t *record = words->word + at;
        struct event e = {
            .op = record[0] >> 56, .flags = record[0] >> 48 & 0xff, .argument = record[0] & ((1ull << 48) - 1)};
        CHECK(at > 0 || e.op == MALLOW_OP_THREAD);
        CHECK(e.op > MALLOW_OP_PAD && e.op < MALLOW_OP_ALLOC + MALLOW_FAMILY_COUNT);
        CHECK(e.op <= MALLOW_OP_REGION || e.op >= MALLOW_OP_ALLOC);
        at++;
        if (e.op == MALLOW_OP_STACK) {
            CHECK(numbered);
            at += e.argument & 0xffff;
            define_stack(&story, record, first, last == SIZE_MAX ? NULL : &story.stack[last]);
            last = story.stacks - 1;
            continue;
        }
        if (e.op == MALLOW_OP_GENERATION) {
            numbered = 1;
            first = story.stacks;
            last = SIZE_MAX;
            brought = NULL;
        } else if (e.op == MALLOW_OP_TIME) {
            CHECK(e.argument >= time);
            time = e.argument;
        } else if (e.op == MALLOW_OP_ORDER) {
            CHECK(e.argument >= order);
            order = e.argument;
        } else if (e.op == MALLOW_OP_THREAD) {
            thread = 1;
        } else {
            CHECK(thread && time > 0);
        }
        if (carries_stack(e.op)) {
            int wide = (e.flags & MALLOW_FLAG_WIDE_SIZE) != 0, same = (e.flags & MALLOW_FLAG_SAME) != 0;
            CHECK(!same || (brought != NULL && !wide));
            const uint64_t *word = same ? brought : record + 1;
            brought = wide ? brought : word;
            e.size = wide ? word[0] : word[0] >> MALLOW_STACK_BITS;
            uint64_t number = word[wide] & ((1u << MALLOW_STACK_BITS) - 1);
            CHECK(first + number < story.stacks);
            last = first + number;
            e.stack = (uint32_t)last;
            at += (size_t)(1 + wide - same);
        }
        story.event = grown(story.event, story.events, sizeof e);
        story.event[story.events++] = e;
    }
    return story;
}

size_t story_count(const struct story *story, uint64_t op) {
    size_t count = 0;
    for (size_t i = 0; i < story->events; i++)
        count += story->event[i].op == op;
    return count;
}

/* ---- events as text ---- */

struct names {
    uint64_t address[26];
    unsigned used;
};

/* Of the youngest block with this address. */
static char name_of(const struct names *names, uint64_t address) {
    for (unsigned i = names->used; i-- > 0;)
        if (names->address[i] == address)
            return (char)('a' + i);
    return '?';
}

static char name_new(struct names *names, uint64_t address) {
    CHECK(names->used < 26);
    names->address[names->used++] = address;
    return (char)('a' + names->used - 1);
}

const char *events_text(const struct image *image, uint32_t ring) {
    char *text = calloc(1, TEXT);
    struct story story = story_of(&image->ring[ring]);
    struct names names = {0};
    uint64_t begun = 0;
    for (size_t i = 0; i < story.events; i++) {
        const struct event *e = &story.event[i];
        if (e->op == MALLOW_OP_TIME || e->op == MALLOW_OP_ORDER || e->op == MALLOW_OP_THREAD ||
            e->op == MALLOW_OP_GENERATION)
            continue;
        if (*text != 0)
            say(text, "; ");
        CHECK((begun != 0) == (e->op >= MALLOW_OP_REALLOC_DONE && e->op <= MALLOW_OP_REALLOC_FAILED));
        switch (e->op) {
        case MALLOW_OP_FREE:
            say(text, "free %c", name_of(&names, e->argument));
            break;
        case MALLOW_OP_REALLOC_BEGIN:
            begun = e->argument;
            say(text, "begin %c", name_of(&names, begun));
            break;
        case MALLOW_OP_REALLOC_DONE: {
            char name = e->argument == begun ? name_of(&names, begun) : name_new(&names, e->argument);
            say(text, "%c=%s %lu", name, e->flags & MALLOW_FLAG_REALLOCARRAY ? "reallocarray" : "realloc", e->size);
            begun = 0;
            break;
        }
        case MALLOW_OP_REALLOC_FREED:
        case MALLOW_OP_REALLOC_FAILED:
            say(text, "%s", e->op == MALLOW_OP_REALLOC_FREED ? "freed" : "failed");
            begun = 0;
            break;
        case MALLOW_OP_LOST:
            say(text, "lost %lu", e->argument);
            break;
        default:
            say(text, "%c=%s %lu", name_new(&names, e->argument), family_name[e->op - MALLOW_OP_ALLOC], e->size);
        }
    }
    return text;
}

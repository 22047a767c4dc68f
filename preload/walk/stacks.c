/* Remembered stacks: learning guesses, and checking those with frame pointers.  */
#include "walk/stacks.h"
#include "base/sys.h"

#include <string.h>

/* Bytes that the guesses of all threads may take together, beside those that lie with the numbers. The table that finds
 * runs of frames is not counted: it has at most 32 bytes a run (4 entries, just after it grew), and a run has 16 or
 * more (a stack
 * that follows itself is one word behind the head). */
#ifndef BYTES_MOST
#define BYTES_MOST (8u << 20)
#endif
#define BYTES_FIRST 4096u

/* Frames that are not the same in one guess; guesses at what follows one stack. */
#define FRESH_MOST   120u
#define GUESSES_MOST 64u

static uint32_t bytes_taken;

/* Fits no stack, and stays as it is. */
static struct guess no_guess;

/* Follows fp through the frames of a guess; the last one ends at `end`. 0: it does not lead where it should. */
static int fp_fits(const struct guess_frames *frames, uint64_t sp, uint64_t fp, uint64_t end) {
    const uint64_t *word = frames->word, *last = word + frames->fresh;
    for (; word < last; word++) {
        uint64_t saved = *word >> WORD_SAVED_SHIFT & WORD_SAVED_MASK;
        sp += word_bytes(*word);
        if ((*word & WORD_FP) != 0 && fp != sp - RULE_FRAME_BYTES)
            return 0;
        if (saved != 0)
            fp = load_word(sp - 8 * saved);
    }
    return (*word & WORD_FP) == 0 || fp == end - RULE_FRAME_BYTES;
}

/* Adds what the frames of a guess that was taken need to be unchanged later. */
static void fp_checks(struct unwinder *u, const struct guess_frames *frames, uint32_t keep) {
    uint64_t needed = 0;
    for (uint32_t i = frames->fresh, state = keep - 1;; state++) {
        uint64_t cfa = u->places[state - 1].sp, saved = frames->word[i] >> WORD_SAVED_SHIFT & WORD_SAVED_MASK;
        if (needed != 0 && saved != 0) {
            u->check[u->checks++] = (struct check){state, cfa - 8 * saved, needed};
            needed = 0;
        }
        if ((frames->word[i] & WORD_FP) != 0)
            needed = cfa - RULE_FRAME_BYTES;
        if (i-- == 0)
            break;
    }
}

int guess_with_fp(struct stacks *s, const struct guess *guess, uint64_t sp, uint64_t fp) {
    struct unwinder *u = &s->unwinder;
    const struct guess_frames *frames = frames_at(s, guess->frames);
    uint32_t keep = guess->keep;
    if (frames->fp && !fp_fits(frames, sp, fp, u->places[keep - 2].sp))
        return 0;
    guess_take(s, guess, sp);
    while (u->checks > 0 && u->check[u->checks - 1].state >= keep)
        u->checks--;
    if (frames->fp)
        fp_checks(u, frames, keep);
    return 1;
}

/* Twice the size. As table_grow. */
COLD static void make_room(struct array *array) {
    uint64_t mask = sys_block_signals();
    uint32_t size = array->size != 0 ? 2 * array->size : BYTES_FIRST, more = size - array->size;
    char *start = NULL;
    if (__atomic_add_fetch(&bytes_taken, more, __ATOMIC_RELAXED) <= BYTES_MOST)
        start = sys_memory(size);
    if (start == NULL) {
        __atomic_sub_fetch(&bytes_taken, more, __ATOMIC_RELAXED);
    } else {
        if (array->size != 0) {
            memcpy(start, array->start, array->used);
            sys_memory_free(array->start, array->size);
        }
        *array = (struct array){start, array->used, size};
    }
    sys_restore_signals(mask);
}

/* Makes room for so many bytes at the end of what is used. 0: there is no memory. */
static int has_room(struct array *array, uint32_t bytes) {
    if (array->used + bytes > array->size)
        make_room(array);
    return array->used + bytes <= array->size;
}

static void guesses_forget(struct stacks *s) {
    for (uint32_t i = 0; i < s->numbers.table.used; i++)
        s->numbers.after[i] = (struct guess){0};
    table_clear(&s->frame_table);
    s->others.used = s->frame_store.used = ARRAY_FIRST;
    s->after = &no_guess;
}

int stacks_forget(struct stacks *s) {
    guesses_forget(s);
    s->in_step = 0;
    s->before = NUMBER_NONE;
    return numbers_reset(&s->numbers);
}

void stacks_lose(struct stacks *s) {
    s->unwinder.depth = s->unwinder.filled = s->unwinder.checks = 0;
    s->unwinder.forget = 1;
    s->after = &no_guess;
    s->in_step = 0;
}

int stacks_setup(struct stacks *s, void *memory, uint32_t limit) {
    return unwind_setup(&s->unwinder, memory, limit) && stacks_forget(s);
}

/* Writes the innermost frames of the unwinder's stack. 0: a rule is not of the kind that guesses are made of. */
static int frames_write(struct guess_frames *frames, const struct unwinder *u, uint32_t keep) {
    const struct place *place = &u->places[u->depth - 1];
    frames->fresh = u->depth - keep;
    frames->fp = 0;
    for (uint64_t *word = frames->word, *last = word + frames->fresh;; word++, place--) {
        uint32_t rule = unwind_rule(place->pc);
        uint64_t cfa = rule_cfa_offset(rule), bytes = place[-1].sp - place->sp;
        int by_fp = rule_uses_fp(rule);
        if (place->pc > UINT64_MAX >> (WORD_PC_SHIFT + 1))
            return 0;
        *word = place->pc << WORD_PC_SHIFT;
        if (word == last && (u->states[keep - 1].flags & STATE_NEEDS_FP) == 0)
            return 1; /* its callers stand, and it does not matter how they were found */
        if (!rule_is_quick(rule) || (by_fp ? cfa != RULE_FRAME_BYTES : cfa != bytes))
            return 0;
        if (by_fp) {
            *word |= WORD_FP;
            frames->fp = 1;
        }
        if (word == last)
            return by_fp;
        if (bytes > 8 * WORD_SIZE_MASK)
            return 0;
        *word |= rule_fp_saved(rule) << WORD_SAVED_SHIFT | bytes / 8;
    }
}

struct search {
    const struct stacks *stacks;
    const struct guess_frames *frames;
};

static int are_frames(const void *context, uint32_t at) {
    const struct search *search = context;
    const struct guess_frames *known = frames_at(search->stacks, at), *frames = search->frames;
    return known->fresh == frames->fresh && memcmp(known->word, frames->word, 8 * (frames->fresh + 1)) == 0;
}

/* Where the run of the unwinder's innermost frames lies. 0: there is none. */
static uint32_t frames_find(struct stacks *s, uint32_t keep) {
    uint32_t words = s->unwinder.depth - keep + 1, bytes = (uint32_t)sizeof(struct guess_frames) + 8 * words;
    if (!has_room(&s->frame_store, bytes) || !table_has_room(&s->frame_table)) {
        guesses_forget(s);
        if (!has_room(&s->frame_store, bytes) || !table_has_room(&s->frame_table))
            return 0;
    }
    struct guess_frames *frames = frames_at(s, s->frame_store.used);
    if (!frames_write(frames, &s->unwinder, keep))
        return 0;
    uint64_t hash = 0;
    for (uint32_t i = 0; i < words; i++)
        hash = (hash ^ frames->word[i]) * 0x9e3779b97f4a7c15ull;
    uint64_t *entry = table_find(&s->frame_table, hash, are_frames, &(struct search){s, frames});
    if (*entry == 0) {
        table_set(&s->frame_table, entry, hash, s->frame_store.used);
        s->frame_store.used += bytes;
    }
    return (uint32_t)*entry;
}

/* The guess named so; 0 is the first one at what follows `before`. */
static struct guess *guess_named(const struct stacks *s, uint32_t at) {
    return at != 0 ? guess_at(s, at) : &s->numbers.after[s->before];
}

/* Remembers that the stack that was walked, `number`, followed `before`. */
static void guess_learn(struct stacks *s, uint32_t number) {
    const struct unwinder *u = &s->unwinder;
    uint32_t keep = u->shared;
    if (keep < 2 || u->depth - keep > FRESH_MOST)
        return;
    uint64_t span = (u->places[keep - 1].sp - u->places[u->depth - 1].sp) / 8;
    uint32_t frames = span > UINT16_MAX ? 0 : frames_find(s, keep);
    if (frames == 0)
        return;
    /* A new one goes to the end, or where there is none to be had, into the last one's place. */
    uint32_t last = 0, count = 1;
    for (uint32_t other; (other = guess_named(s, last)->other) != 0; last = other)
        count++;
    if (guess_named(s, last)->frames != 0 && count < GUESSES_MOST && has_room(&s->others, sizeof(struct guess))) {
        guess_named(s, last)->other = s->others.used;
        last = s->others.used;
        s->others.used += sizeof(struct guess);
    }
    *guess_named(s, last) =
        (struct guess){.number = number, .frames = frames, .keep = (uint16_t)keep, .span = (uint16_t)span};
}

void stacks_walk(struct stacks *s, uint64_t pc, uint64_t sp, uint64_t fp) {
    struct unwinder *u = &s->unwinder;
    uint32_t changes = __atomic_load_n(&modules_linker.changes, __ATOMIC_ACQUIRE);
    s->before = s->in_step && !u->forget ? s->numbers.last : NUMBER_NONE;
    unwind(u, pc, sp, fp);
    if (UNLIKELY(s->unloads != u->unloads)) {
        s->unloads = u->unloads;
        guesses_forget(s);
    }
    s->changes = changes;
}

uint32_t stacks_number(const struct stacks *s) {
    uint64_t hash = s->unwinder.states[s->unwinder.depth - 1].hash;
    if (s->before != NUMBER_NONE && s->numbers.hash[s->before] == hash)
        return s->before;
    return numbers_find(&s->numbers, hash);
}

void stacks_use(struct stacks *s, uint32_t number) {
    s->numbers.last = number;
    s->in_step = 1;
    if (s->before != NUMBER_NONE && !s->unwinder.forget)
        guess_learn(s, number);
    s->after = s->unwinder.forget ? &no_guess : &s->numbers.after[number];
}

/*
 * The stacks that a ring knows: their numbers, and which of them follow which.
 *
 * Programs go from stack to stack in the same order again and again. Each stack remembers which ones came after it, and
 * what they have instead of its innermost frames. Such a guess is verified by comparing stack words: no rule is looked
 * up, and there are few branches for the processor to get wrong.
 *
 *      root                                                 innermost
 *   before:  [ place 0 | … | place keep-1 ] [ … returned … ]
 *   guess:   [ -------- the same -------- ] [ word[fresh-1] | … | word[0] ]
 *                          sp + 8 * span ^                        sp ^
 *
 * What makes it right. A frame's pc determines its rule, and the rule computes from sp, or from fp, where the caller's
 * frame begins; the caller's pc lies just below. A guess is made of frames with such rules alone, from a stack that was
 * walked: it holds their pcs, how large they were, and what their rules say of fp. It is taken when
 *
 *   - pc is word[0]'s, and the caller's pc of each frame up to place keep-1 is as the guess says,
 *   - where a rule reads fp, fp leads to where the frame ended; for place keep-1 to where it ends in the stack before,
 *   - place keep-1 begins at sp + 8 * span, and all frames further out stand (`any_changed`).
 *
 * By induction from sp outwards, a walk would find these frames and then meet place keep-1. Whether that one's rule
 * reads fp follows from the pcs up to it, which are those of the stack before; rules change only when modules do, and
 * then all guesses are dropped.
 *
 * What a guess costs is mostly the memory that it is read from. So it is 16 bytes, beside the one that is likely to
 * come next, and the frames (few different ones) lie elsewhere.
 */
#ifndef MALLOW_STACKS_H
#define MALLOW_STACKS_H

#include "walk/modules.h"
#include "walk/numbers.h"
#include "walk/unwind.h"

/*
 * Frames of a guess. Each word is one, innermost first; the last one is place keep-1, with bytes and saved 0.
 *
 *     63   62                            16 15     11 10                    0
 *   +-----+--------------------------------+---------+-----------------------+
 *   | fp |               pc               |  saved  |   bytes to next / 8   |     fp: its CFA is fp + 16
 *   +-----+--------------------------------+---------+-----------------------+     saved k: fp lies at CFA - 8 * k
 */
struct guess_frames {
    uint32_t fresh;
    uint32_t fp;     /* not 0: some word has the fp bit */
    uint64_t word[]; /* fresh + 1 */
};

#define WORD_FP          (1ull << 63)
#define WORD_PC_SHIFT    16
#define WORD_SAVED_SHIFT 11
#define WORD_SAVED_MASK  0x1fu
#define WORD_SIZE_MASK   0x7ffu

static inline uint64_t word_pc(uint64_t word) {
    return (word & ~WORD_FP) >> WORD_PC_SHIFT;
}

static inline uint64_t word_bytes(uint64_t word) {
    return 8 * (word & WORD_SIZE_MASK);
}

/* Things that lie one behind the other, named by how many bytes lie before them. Nothing is named 0. */
struct array {
    char *start;
    uint32_t used, size;
};

#define ARRAY_FIRST 16u

struct stacks {
    struct guess *after;      /* at the next stack; at none where the unwinder's stack cannot be relied on */
    uint32_t changes;         /* modules_linker.changes when all guesses were right */
    uint32_t unloads;         /* modules_linker.unloads that they know of */
    struct array others;      /* struct guess */
    struct array frame_store; /* struct guess_frames: runs */
    struct table frame_table; /* of each run: where it lies */
    struct unwinder unwinder;
    struct numbers numbers;
    uint32_t before; /* the number that the stack walked last follows, NUMBER_NONE: nothing is to be learned */
    uint8_t in_step; /* the unwinder's stack is the one that was used last */
};

static inline struct guess *guess_at(const struct stacks *stacks, uint32_t at) {
    return (struct guess *)(stacks->others.start + at);
}

static inline struct guess_frames *frames_at(const struct stacks *stacks, uint32_t at) {
    return (struct guess_frames *)(stacks->frame_store.start + at);
}

/* 0: no memory. */
int stacks_setup(struct stacks *stacks, void *memory, uint32_t limit);

/* Forgets all numbers and guesses. 0: no memory. */
int stacks_forget(struct stacks *stacks);

/* The unwinder's stack is no longer what it was; its frames cannot be relied on. */
void stacks_lose(struct stacks *stacks);

/* Walks the stack that begins with these registers: pc, sp and fp as in unwind(). */
void stacks_walk(struct stacks *stacks, uint64_t pc, uint64_t sp, uint64_t fp);

/* The number of the stack that was walked, NUMBER_NONE: it is new. */
uint32_t stacks_number(const struct stacks *stacks);

/* How many of its frames, from the root on, are those of the stack used last. */
static inline uint32_t stacks_kept(const struct stacks *stacks) {
    return stacks->in_step ? stacks->unwinder.shared : 0;
}

/* Takes the number of the stack that was walked into use. */
void stacks_use(struct stacks *stacks, uint32_t number);

/* The rest of stacks_guess, where rules read fp. */
int guess_with_fp(struct stacks *stacks, const struct guess *guess, uint64_t sp, uint64_t fp);

/* Changes places with the one before it: what comes often is found soon. */
static inline void guess_promote(struct guess *guess, struct guess *before) {
    struct guess mine = *guess;
    guess->number = before->number;
    guess->frames = before->frames;
    guess->keep = before->keep;
    guess->span = before->span;
    before->number = mine.number;
    before->frames = mine.frames;
    before->keep = mine.keep;
    before->span = mine.span;
}

/* Takes a guess that was verified. */
static inline void guess_take(struct stacks *s, const struct guess *guess, uint64_t sp) {
    struct unwinder *u = &s->unwinder;
    const struct guess_frames *frames = frames_at(s, guess->frames);
    const uint64_t *word = frames->word, *last = word + frames->fresh;
    struct place *place = &u->places[guess->keep + frames->fresh];
    for (; word < last; word++) {
        *--place = (struct place){sp, word_pc(*word)};
        sp += word_bytes(*word);
    }
    u->depth = guess->keep + frames->fresh;
    u->filled = u->filled < guess->keep ? u->filled : guess->keep;
    s->numbers.last = guess->number;
    s->after = &s->numbers.after[guess->number];
}

/*
 * Whether the stack that begins with these registers is one that followed the last one before. Then it is the
 * unwinder's, and its number is in use. 0: it has to be walked.
 */
static inline int stacks_guess(struct stacks *s, uint64_t pc, uint64_t sp, uint64_t fp) {
    const struct unwinder *u = &s->unwinder;
    if (UNLIKELY(s->changes != __atomic_load_n(&modules_linker.changes, __ATOMIC_ACQUIRE) || sp < u->low))
        return 0;
    for (struct guess *guess = s->after, *before = guess;; before = guess, guess = guess_at(s, guess->other)) {
        const struct place *base = &u->places[guess->keep] - 1;
        const struct guess_frames *frames = frames_at(s, guess->frames);
        if (base->sp - sp == 8ull * guess->span && word_pc(frames->word[0]) == pc) {
            __builtin_prefetch(&s->numbers.after[guess->number]);
            uint64_t difference = 0, at = sp;
            for (const uint64_t *word = frames->word, *last = word + frames->fresh; word < last; word++) {
                at += word_bytes(*word);
                difference |= load_word(rule_return_slot(at)) ^ word_pc(word[1]);
            }
            difference |= any_changed(u, guess->keep);
            if (LIKELY(difference == 0)) {
                int taken = 1;
                if (LIKELY((frames->fp | u->checks) == 0))
                    guess_take(s, guess, sp);
                else
                    taken = guess_with_fp(s, guess, sp, fp);
                if (taken) {
                    if (guess != before)
                        guess_promote(guess, before);
                    return 1;
                }
            }
        }
        if (guess->other == 0)
            return 0;
    }
}

#endif

/* The walk: rules by pc, steps, and what is kept of the last stack.  */
#include "walk/unwind.h"
#include "arch.h"
#include "base/sys.h"
#include "walk/modules.h"

/*
 * Rules by pc, shared by all threads: pc << 16 | quick rule. One word an entry, so a reader sees a whole entry or
 * another whole entry; 32 K entries hold the call sites of cc1plus.
 */
#define RULE_CACHE_BITS 15
static uint64_t *rule_cache;
#define RULE_CACHE_BYTES (sizeof *rule_cache << RULE_CACHE_BITS)
/* Set when an address without a module was cached as having no rule, though a module may come to lie there; and
 * modules_linker.changes then. */
static uint8_t rule_cache_guessed;
static uint32_t rule_cache_changes;

/* Code that a JIT compiler makes lies together: a frame pointer leads from it to code no further away than this. V8
 * puts a copy of its builtins at the end of the range of its code, which has 512 MB. */
#define JIT_REACH (512ull << 20)

/* In the place of fp where that was lost: no rule that reads it finds a frame there. */
#define FP_LOST 1ull

/* See any_changed. */
#define PLACES_BEFORE 3u
static const uint64_t no_return_address;

uint64_t unwind_bytes(uint32_t limit) {
    return PLACES_BEFORE * sizeof(struct place) +
           (uint64_t)limit * 2 * (sizeof(struct place) + sizeof(struct state) + sizeof(struct check));
}

/* Programs that are counted alone, or have no room for it, do without. */
static int rule_cache_make(void) {
    uint64_t *made, *none = NULL;
    if (__atomic_load_n(&rule_cache, __ATOMIC_ACQUIRE) != NULL)
        return 1;
    if ((made = sys_memory(RULE_CACHE_BYTES)) == NULL)
        return 0;
    if (!__atomic_compare_exchange_n(&rule_cache, &none, made, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        sys_memory_free(made, RULE_CACHE_BYTES);
    return 1;
}

int unwind_setup(struct unwinder *u, void *memory, uint32_t limit) {
    if (!rule_cache_make())
        return 0;
    u->limit = limit;
    u->places = (struct place *)memory + PLACES_BEFORE;
    for (struct place *place = memory; place < u->places; place++)
        *place = (struct place){.sp = (uint64_t)(&no_return_address + 1)};
    u->fresh_places = u->places + limit;
    u->states = (struct state *)(u->fresh_places + limit);
    u->fresh_states = u->states + limit;
    u->check = (struct check *)(u->fresh_states + limit);
    unwind_adopt(u);
    return 1;
}

void unwind_flush(void) {
    if (rule_cache == NULL)
        return;
    for (uint32_t i = 0; i < 1u << RULE_CACHE_BITS; i++)
        __atomic_store_n(&rule_cache[i], 0, __ATOMIC_RELAXED);
}

static uint64_t *cache_slot(uint64_t key) {
    return &rule_cache[(key ^ key >> RULE_CACHE_BITS) & ((1u << RULE_CACHE_BITS) - 1)];
}

COLD static uint32_t rule_find(uint64_t key) {
    uint32_t generation = modules_generation;
    const struct module *module = module_find(key);
    uint32_t quick = RULE_UNKNOWN;
    int guessed = module != NULL && rule_cache_guessed && rule_cache_changes != modules_linker.changes;
    if (modules_generation != generation || guessed) {
        rule_cache_guessed = 0;
        unwind_flush();
    }
    if (guessed)
        modules_void();
    if (module == NULL) {
        if (!rule_cache_guessed)
            rule_cache_changes = modules_linker.changes;
        rule_cache_guessed = 1;
        quick = arch_trampoline(key + 1);
    } else if (module->table != NULL) {
        quick = module->quick[module_row(module, key)];
    }
    __atomic_store_n(cache_slot(key), key << 16 | quick, __ATOMIC_RELAXED);
    return quick;
}

static inline uint32_t rule_of(uint64_t key) {
    /* Equal keys cancel, and leave the rule alone. */
    uint64_t entry = __atomic_load_n(cache_slot(key), __ATOMIC_RELAXED) ^ key << 16;
    if (LIKELY(entry < 0x10000))
        return (uint32_t)entry;
    return rule_find(key);
}

/* The address to look a state's rule up at: inside the call instruction, or the interrupted instruction itself. */
static inline uint64_t rule_key(uint64_t pc) {
    return (pc & MALLOW_EXACT_PC) != 0 ? pc & ~MALLOW_EXACT_PC : pc - 1;
}

uint32_t unwind_rule(uint64_t pc) {
    uint32_t rule = rule_of(rule_key(pc));
    return rule == RULE_UNKNOWN ? RULE_FRAME_POINTER : rule;
}

/* The result of a step out of a frame. */
enum step {
    STEP_CALLER,          /* pc, sp and fp are the caller's */
    STEP_CALLER_UNCACHED, /* the same; the return address is not just below the caller's sp: do not keep the frame */
    STEP_RETRY,           /* more of the stack is known to be readable: try again */
    STEP_END,             /* there is no caller */
    STEP_UNKNOWN,         /* the caller cannot be found */
    STEP_NO_FRAME,        /* nor is this a frame: what led here is no return address */
    STEP_FULL,            /* a register that this walk does not follow is needed */
};

/* A walk under way: the registers of the current frame. */
struct walk {
    uint64_t pc, sp, fp;
    uint64_t high; /* memory from sp to here can be read */
    int foreign;   /* on a stack that is not the thread's own: high is moved by probing */
};

/* True when [address, address + 8) lies between the walk's sp and the end of readable memory. */
static int can_load(struct walk *w, uint64_t address) {
    if (address < w->sp || address > UINT64_MAX - 16)
        return 0;
    return address + 8 <= w->high || (w->foreign && unwind_extend(&w->high, address + 8));
}

/* Where the rule says that a register was saved; 0: in no stack word. */
static uint64_t saved_slot(const struct walk *w, struct state *s, uint64_t cfa, const struct mallow_rule *rule,
                           int which) {
    uint64_t offset = (uint64_t)(int64_t)rule->offset[which];
    switch (rule->kind[which]) {
    case MALLOW_SAVED_AT_CFA:
        return cfa + offset;
    case RULE_SAVED_AT_SP:
        return w->sp + offset;
    case RULE_SAVED_AT_FP:
        s->flags |= STATE_USES_FP;
        return w->fp + offset;
    default:
        return 0;
    }
}

/* Steps by a whole rule: everything that the quick form cannot say. */
COLD static enum step step_rule(struct unwinder *u, struct walk *w, struct state *s, const struct mallow_rule *rule) {
    uint64_t base, cfa, at;
    if (rule->cfa_kind == MALLOW_CFA_END)
        return STEP_END;
    if (rule->context_kind != MALLOW_CONTEXT_NONE && !u->stack_only)
        return STEP_FULL;
    if (rule->cfa_reg == RULE_SP)
        base = w->sp;
    else if (rule->cfa_reg == RULE_FP)
        base = w->fp, s->flags |= STATE_USES_FP;
    else
        return STEP_FULL;
    base += (uint64_t)(int64_t)rule->cfa_offset;
    switch (rule->cfa_kind) {
    case MALLOW_CFA_OFFSET:
        cfa = base;
        break;
    case MALLOW_CFA_PLT:
        cfa = base + rule_plt_bytes(rule, w->pc);
        break;
    case MALLOW_CFA_DEREF:
        if (!can_load(w, base))
            return STEP_UNKNOWN;
        cfa = load_word(base) + (uint64_t)(int64_t)rule->cfa_extra;
        s->flags |= STATE_DEREF;
        s->extra_slot = base & 0xffffffffffffffull;
        break;
    case MALLOW_CFA_GOROUTINE:
        at = w->sp + (uint64_t)(int64_t)rule->cfa_extra;
        if (!can_load(w, base) || !can_load(w, at))
            return STEP_UNKNOWN;
        cfa = goroutine_cfa(load_word(base), load_word(at), &w->high);
        if (cfa == 0)
            return STEP_UNKNOWN;
        w->sp = cfa - RULE_FRAME_BYTES;
        w->foreign = 1;
        break;
    default:
        return STEP_UNKNOWN;
    }

    at = saved_slot(w, s, cfa, rule, MALLOW_RA);
    if (at == 0 || !can_load(w, at))
        return rule->kind[MALLOW_RA] == MALLOW_SAVED_UNDEFINED ? STEP_END : STEP_UNKNOWN;
    uint64_t ra_slot = at, pc = load_word(at);
    at = saved_slot(w, s, cfa, rule, RULE_FP);
    if (at != 0) {
        if (!can_load(w, at))
            return STEP_UNKNOWN;
        s->fp_slot = at;
        w->fp = rule_unmarked_fp(rule, load_word(at));
    } else if (rule->kind[RULE_FP] == MALLOW_SAVED_IS_CFA) {
        w->fp = cfa + (uint64_t)(int64_t)rule->offset[RULE_FP];
    } else if (rule->kind[RULE_FP] == MALLOW_SAVED_UNDEFINED) {
        w->fp = FP_LOST;
    }
    w->pc = rule->signal_frame ? pc | MALLOW_EXACT_PC : pc;
    /* A handler on an alternate stack returns to another stack: the order of addresses ends there. */
    if (cfa <= w->sp || cfa > w->high) {
        if (!rule->signal_frame)
            return STEP_UNKNOWN;
        w->foreign = !unwind_owns(u, cfa);
        w->high = w->foreign ? (cfa | (ARCH_PAGE - 1)) + 1 : u->high;
        if (w->foreign && !sys_readable(cfa & ~7ull))
            return STEP_UNKNOWN;
        w->sp = cfa;
        return STEP_CALLER_UNCACHED;
    }
    w->sp = cfa;
    return ra_slot == rule_return_slot(cfa) ? STEP_CALLER : STEP_CALLER_UNCACHED;
}

/* Steps a frame that no table describes, as if it kept a frame pointer. It may not: the stack is cut for its readers,
 * however far the walk goes. */
COLD static enum step step_frame_pointer(struct walk *w, struct state *s) {
    uint64_t fp = w->fp, from = w->pc & ~MALLOW_EXACT_PC;
    uint64_t cfa = fp + RULE_FRAME_BYTES, ra_slot = rule_return_slot(cfa);
    if ((fp & 7) != 0 || fp < w->sp || !can_load(w, fp) || !can_load(w, ra_slot))
        return STEP_UNKNOWN;
    uint64_t pc = load_word(ra_slot);
    if (pc == 0)
        return STEP_END;
    /* Where fp was no frame pointer, what it led to is seldom code. */
    if ((module_find(pc - 1) == NULL && pc - from + JIT_REACH > 2 * JIT_REACH) || !arch_follows_call(pc))
        return STEP_UNKNOWN;
    s->flags |= STATE_USES_FP | STATE_UNSURE_STEP;
    s->fp_slot = fp;
    w->pc = pc;
    w->fp = load_word(fp);
    w->sp = cfa;
    return STEP_CALLER;
}

/* A frame without a rule. Where its module has a table, mallow has looked at its code, and does not know either. */
COLD static enum step step_without_rule(struct walk *w, struct state *s) {
    const struct module *module = module_find(rule_key(w->pc));
    if (module != NULL && module->table != NULL)
        return STEP_UNKNOWN;
    if (module == NULL && (w->pc & MALLOW_EXACT_PC) == 0 && !arch_follows_call(w->pc))
        return STEP_NO_FRAME;
    return step_frame_pointer(w, s);
}

COLD static enum step step_special(struct unwinder *u, struct walk *w, struct state *s, uint32_t quick) {
    uint32_t index = quick & ~MALLOW_QUICK_RULE;
    if (index == MALLOW_RULE_END)
        return STEP_END;
    if (index == MALLOW_RULE_NONE)
        return step_without_rule(w, s);
    uint64_t key = rule_key(w->pc);
    const struct module *module = module_known(key);
    if (module == NULL)
        module = module_find(key);
    if (module == NULL || module->table == NULL || index >= module->table->rules)
        return STEP_UNKNOWN;
    enum step step = step_rule(u, w, s, &module->rules[index]);
    return step <= STEP_CALLER_UNCACHED && (w->pc & ~MALLOW_EXACT_PC) == 0 ? STEP_END : step;
}

/*
 * Which of the remembered frames 0 .. count-1 still stand, given that the innermost, count-1, does: returns the lowest
 * index from which on all do; 0 when all do.
 */
static inline uint32_t verify(const struct unwinder *u, uint32_t count) {
    if (LIKELY(any_changed(u, count) == 0))
        return 0;
    uint32_t valid = count - 1;
    while (valid > 0 && pc_difference(&u->places[valid - 1]) == 0)
        valid--;
    for (uint32_t i = 0; i < u->checks && u->check[i].state < count; i++)
        if (load_word(u->check[i].slot) != u->check[i].value && u->check[i].state > valid)
            valid = (uint32_t)u->check[i].state;
    return valid;
}

/* 128-bit product folded (the mixing step of the wyhash family): two stacks collide with a chance of about 2^-64. */
static inline uint64_t mix(uint64_t hash, uint64_t pc) {
    __uint128_t product = (__uint128_t)(hash ^ 0x9e3779b97f4a7c15ull) * (pc ^ 0xd6e8feb86659fd93ull);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* The hash of a frame and all further out. What is found without tables may be found again with them, for certain. */
static inline uint64_t mix_frame(uint64_t outer, uint64_t pc, uint64_t flags) {
    uint64_t hash = mix(outer, pc);
    return LIKELY((flags & STATE_UNSURE_STEP) == 0) ? hash : mix(hash, 1);
}

/* Makes the states of guessed frames. Their rules are quick ones, and they are not the outermost. */
static void fill(struct unwinder *u) {
    for (uint32_t i = u->filled; i < u->depth; i++) {
        struct state *state = &u->states[i];
        uint64_t pc = u->places[i].pc, cfa = u->places[i - 1].sp;
        uint32_t rule = unwind_rule(pc);
        uint64_t restored = rule_is_quick(rule) ? rule_fp_saved(rule) : 0;
        uint64_t unsure = rule_of(rule_key(pc)) == RULE_UNKNOWN ? STATE_UNSURE_STEP | STATE_UNSURE : 0;
        unsure |= state[-1].flags & STATE_UNSURE;
        *state = (struct state){.hash = mix_frame(state[-1].hash, pc, unsure)};
        if (restored != 0)
            state->fp_slot = cfa - 8 * restored;
        if (rule_uses_fp(rule)) {
            state->flags = STATE_USES_FP | STATE_NEEDS_FP | unsure;
            state->fp = cfa - rule_cfa_offset(rule);
        } else if (restored == 0) {
            state->flags = (state[-1].flags & STATE_NEEDS_FP) | unsure;
            state->fp = state[-1].fp;
        } else {
            state->flags = unsure;
        }
    }
    u->filled = u->depth;
}

/* Puts the `count` fresh frames on top of the first u->shared remembered ones. u->cut: whether frames further out than
 * the fresh ones are missing, where none are shared; then, whether the stack is cut. */
static void settle(struct unwinder *u, uint32_t count) {
    uint32_t shared = u->shared;
    struct place *place = u->places + shared;
    struct state *state = u->states + shared;
    const struct place *fresh_place = u->fresh_places + count;
    const struct state *fresh_state = u->fresh_states + count;
    uint64_t hash = shared > 0 ? state[-1].hash : u->cut ? 2 : 1;
    uint64_t needed = shared > 0 ? state[-1].flags & STATE_NEEDS_FP : 0;
    uint64_t unsure = shared > 0 ? state[-1].flags & STATE_UNSURE : u->cut ? STATE_UNSURE : 0;
    while (u->checks > 0 && u->check[u->checks - 1].state >= shared)
        u->checks--;
    u->depth = u->filled = shared + count;
    for (uint32_t i = shared; i < shared + count; i++, place++, state++) {
        *place = *--fresh_place;
        *state = *--fresh_state;
        uint64_t flags = state->flags;
        hash = mix_frame(hash, place->pc, flags);
        state->hash = hash;
        if (UNLIKELY(needed != 0 && state->fp_slot != 0))
            u->check[u->checks++] = (struct check){i, state->fp_slot, state[-1].fp};
        if (UNLIKELY((flags & STATE_DEREF) != 0))
            u->check[u->checks++] = (struct check){i, state->extra_slot, load_word(state->extra_slot)};
        /* Copied states say what they were: it is determined anew, for other callers. */
        needed = (flags & STATE_USES_FP) != 0 || (state->fp_slot == 0 && needed != 0) ? STATE_NEEDS_FP : 0;
        if (UNLIKELY((flags & STATE_UNSURE_STEP) != 0))
            unsure = STATE_UNSURE;
        state->flags = (flags & ~(uint64_t)(STATE_NEEDS_FP | STATE_UNSURE)) | needed | unsure;
    }
    u->cut = unsure != 0;
}

/* More frames than the limit: keeps the innermost, and nothing of it can be relied on later. */
COLD static void settle_deep(struct unwinder *u, uint32_t count) {
    uint32_t outer = u->limit - count;
    /* There is room for limit fresh frames: append the innermost shared ones, then settle them all. */
    for (uint32_t i = 0; i < outer; i++) {
        u->fresh_places[count + i] = u->places[u->shared - 1 - i];
        u->fresh_states[count + i] = u->states[u->shared - 1 - i];
    }
    u->shared = 0;
    u->checks = 0;
    u->cut = 1;
    settle(u, count + outer);
    u->forget = 1;
}

/* A step that the quick form does not describe, from the frame in `place` and `s`. */
COLD static enum step step_other(struct unwinder *u, struct walk *w, struct state *s, uint32_t quick, uint64_t cfa) {
    s->fp_slot = 0;
    s->flags = 0;
    if (!rule_is_quick(quick)) {
        uint64_t before = w->sp;
        enum step step = step_special(u, w, s, quick);
        return step == STEP_CALLER && (w->sp <= before || w->foreign) ? STEP_CALLER_UNCACHED : step;
    }
    /* The CFA lies beyond what is known to be readable. */
    return w->foreign && cfa > w->sp && unwind_extend(&w->high, cfa) ? STEP_RETRY : STEP_UNKNOWN;
}

/*
 * The remembered frames `valid` .. count-1 stand, those further out do not all. Takes over as fresh ones those further
 * in than `valid`, and returns how many fresh ones there are then; *fp is that of frame `valid`.
 */
COLD static uint32_t take_over(struct unwinder *u, uint32_t count, uint32_t valid, uint32_t fresh, uint64_t *fp) {
    for (uint32_t i = count - 1; i > valid; i--, fresh++) {
        u->fresh_places[fresh] = u->places[i];
        u->fresh_states[fresh] = u->states[i];
        u->fresh_states[fresh].fp = *fp;
        if (u->states[i].fp_slot != 0)
            *fp = load_word(u->states[i].fp_slot);
    }
    return fresh;
}

int unwind_same(struct unwinder *u, uint64_t pc, uint64_t sp, uint64_t fp) {
    if (u->forget || u->unloads != modules_linker.unloads || modules_unsettled() || u->filled != u->depth)
        return 0;
    const struct place *last = &u->places[u->depth - 1];
    const struct state *state = &u->states[u->depth - 1];
    if (last->sp != sp || last->pc != pc || ((state->flags & STATE_NEEDS_FP) != 0 && state->fp != fp) ||
        any_changed(u, u->depth) != 0)
        return 0;
    u->shared = u->depth;
    return 1;
}

void unwind(struct unwinder *u, uint64_t first_pc, uint64_t first_sp, uint64_t first_fp) {
    if (UNLIKELY(modules_unsettled()))
        modules_settle(unwind_flush);
    if (UNLIKELY(u->unloads != modules_linker.unloads)) {
        u->unloads = modules_linker.unloads;
        u->forget = 1;
    }
    if (!u->forget)
        fill(u);
    /* The registers of the frame under way, in variables: the walk is one long chain of loads. */
    uint64_t pc = first_pc, sp = first_sp, fp = first_fp, high = u->high;
    const struct place *candidate = u->places + (u->forget ? 0 : u->depth);
    struct place *place = u->fresh_places;
    struct state *state = u->fresh_states;
    const struct place *const places = u->places, *const most = place + u->limit;
    uint8_t cut = 0, forget = 0;
    int foreign = 0;
    if (UNLIKELY(!unwind_owns(u, sp))) {
        foreign = 1;
        high = (sp | (ARCH_PAGE - 1)) + 1; /* the page is in use */
        candidate = places;
        forget = 1;
    }
    u->shared = 0;
    for (;;) {
        while (candidate > places && candidate[-1].sp < sp)
            candidate--;
        if (candidate > places && candidate[-1].sp == sp && candidate[-1].pc == pc) {
            uint32_t count = (uint32_t)(candidate - places);
            const struct state *last = &u->states[count - 1];
            if ((last->flags & STATE_NEEDS_FP) == 0 || last->fp == fp) {
                uint32_t valid = verify(u, count), fresh = (uint32_t)(place - u->fresh_places);
                if (LIKELY(valid == 0)) {
                    u->shared = count;
                    break;
                }
                if (fresh + count - 1 - valid >= u->limit)
                    valid = fresh + count - u->limit; /* the limit cuts it below */
                uint64_t carried = fp;                /* fp itself stays in a register */
                fresh = take_over(u, count, valid, fresh, &carried);
                fp = carried;
                place = u->fresh_places + fresh;
                state = u->fresh_states + fresh;
                candidate = &places[valid];
                pc = candidate->pc;
                sp = candidate->sp;
            }
        }
        if (UNLIKELY(place == most)) {
            cut = forget = 1;
            break;
        }
        *place = (struct place){sp, pc};
        state->fp = fp;
        uint32_t quick = rule_of(rule_key(pc));
        uint64_t cfa = rule_cfa(quick, sp, fp);
        if (LIKELY(rule_is_quick(quick) && cfa - (sp + 8) <= high - (sp + 8))) {
            uint64_t restored = rule_fp_saved(quick);
            pc = load_word(rule_return_slot(cfa));
            state->flags = rule_uses_fp(quick) ? STATE_USES_FP : 0;
            state->fp_slot = 0;
            if (restored != 0) {
                state->fp_slot = cfa - 8 * restored;
                fp = load_word(cfa - 8 * restored);
            }
            sp = cfa;
            place++;
            state++;
            if (UNLIKELY(pc == 0))
                break;
            continue;
        }
        struct walk w = {pc, sp, fp, high, foreign};
        enum step step = step_other(u, &w, state, quick, cfa);
        pc = w.pc;
        sp = w.sp;
        fp = w.fp;
        high = w.high;
        foreign = w.foreign;
        if (step == STEP_RETRY)
            continue;
        if (UNLIKELY(step == STEP_NO_FRAME && place != u->fresh_places)) {
            cut = 1;
            break;
        }
        place++;
        state++;
        if (step == STEP_CALLER)
            continue;
        if (step == STEP_CALLER_UNCACHED) {
            candidate = places;
            forget = 1;
            continue;
        }
        cut = step == STEP_UNKNOWN || step == STEP_NO_FRAME;
        if (step == STEP_FULL) {
            uint32_t count = unwind_full(u, first_sp, &cut);
            if (count == 0 && !u->stack_only) {
                u->stack_only = 1;
                unwind(u, first_pc, first_sp, first_fp);
                u->stack_only = 0;
                return;
            }
            if (count == 0) {
                u->fresh_states[0] = (struct state){.fp = first_fp};
                u->fresh_places[0] = (struct place){first_sp, first_pc};
                count = cut = 1;
            }
            place = u->fresh_places + count;
            forget = 1;
        }
        break;
    }
    u->cut = cut;
    u->forget = forget;
    uint32_t count = (uint32_t)(place - u->fresh_places);
    if (UNLIKELY(u->shared + count > u->limit))
        settle_deep(u, count);
    else
        settle(u, count);
}

/*
 * The rare walk: some rule needs another callee-saved register than the frame pointer (the dynamic linker's resolver
 * trampolines; functions that realign their stack). It begins here, inside this library, with the registers as they
 * are, and follows all of them by the whole rules of every frame.
 */
#include "arch.h"
#include "base/sys.h"
#include "walk/modules.h"
#include "walk/unwind.h"

/* Registers, in the order of enum mallow_saved with the stack pointer last; the "return address" is the pc. */
struct registers {
    uint64_t value[MALLOW_SAVED_COUNT + 1];
    uint64_t high;
    int foreign;
    uint32_t lost; /* a bit for each register that is not known */
};

static int can_load(struct registers *r, uint64_t address) {
    if (address < r->value[RULE_SP] - RULE_RED_ZONE || address > UINT64_MAX - 16)
        return 0;
    return address + 8 <= r->high || (r->foreign && unwind_extend(&r->high, address + 8));
}

/* The whole rule of a frame without a table, by the quick one of a trampoline, if it is in one. */
static const struct mallow_rule *trampoline_rule(uint32_t quick) {
    static const struct mallow_rule rules[] = {
        {.cfa_kind = MALLOW_CFA_OFFSET,
         .cfa_reg = RULE_SP,
         .cfa_offset = 16,
         .kind = {[MALLOW_RA] = MALLOW_SAVED_AT_CFA},
         .offset = {[MALLOW_RA] = MALLOW_RETURN_SLOT}},
        {.cfa_kind = MALLOW_CFA_OFFSET,
         .cfa_reg = RULE_SP,
         .cfa_offset = 16,
         .kind = {[RULE_FP] = MALLOW_SAVED_AT_CFA, [MALLOW_RA] = MALLOW_SAVED_AT_CFA},
         .offset = {[RULE_FP] = -16, [MALLOW_RA] = MALLOW_RETURN_SLOT}}};
    return quick == RULE_UNKNOWN ? &rule_frame_pointer : &rules[rule_fp_saved(quick) != 0];
}

/* NULL: there is a table, and it has none. */
static const struct mallow_rule *rule_at(uint64_t key) {
    const struct module *module = module_known(key);
    if (module == NULL)
        module = module_find(key);
    if (module == NULL || module->table == NULL)
        return trampoline_rule(module == NULL ? arch_trampoline(key + 1) : RULE_UNKNOWN);
    uint32_t index = module->full[module_row(module, key)];
    if (index == MALLOW_RULE_NONE || index >= module->table->rules)
        return NULL;
    return &module->rules[index];
}

static int is_lost(const struct registers *r, uint32_t which) {
    return (r->lost >> which & 1) != 0;
}

/* 1: r is the caller's; 0: there is none; -1: it is unknown. */
static int step(struct unwinder *u, struct registers *r, const struct mallow_rule *rule) {
    if (rule == NULL || (rule->cfa_kind > MALLOW_CFA_END && is_lost(r, rule->cfa_reg)))
        return -1;
    uint64_t cfa = rule->cfa_reg <= RULE_SP ? r->value[rule->cfa_reg] + (uint64_t)(int64_t)rule->cfa_offset : 0;
    uint64_t depth;
    switch (rule->cfa_kind) {
    case MALLOW_CFA_OFFSET:
        break;
    case MALLOW_CFA_PLT:
        cfa += rule_plt_bytes(rule, r->value[MALLOW_RA]);
        break;
    case MALLOW_CFA_DEREF:
        if (!can_load(r, cfa))
            return -1;
        cfa = load_word(cfa) + (uint64_t)(int64_t)rule->cfa_extra;
        break;
    case MALLOW_CFA_GOROUTINE:
        depth = r->value[RULE_SP] + (uint64_t)(int64_t)rule->cfa_extra;
        if (!can_load(r, cfa) || !can_load(r, depth))
            return -1;
        cfa = goroutine_cfa(load_word(cfa), load_word(depth), &r->high);
        if (cfa == 0)
            return -1;
        r->value[RULE_SP] = cfa - RULE_FRAME_BYTES;
        r->foreign = 1;
        break;
    case MALLOW_CFA_END:
        return 0;
    default:
        return -1;
    }
    struct registers next = *r;
    for (int i = 0; i < MALLOW_SAVED_COUNT; i++) {
        uint64_t offset = (uint64_t)(int64_t)rule->offset[i];
        uint64_t base = rule->kind[i] == RULE_SAVED_AT_SP   ? r->value[RULE_SP]
                        : rule->kind[i] == RULE_SAVED_AT_FP ? r->value[RULE_FP]
                                                            : cfa;
        uint64_t at = base + offset;
        switch (rule->kind[i]) {
        case MALLOW_SAVED_AT_CFA:
        case RULE_SAVED_AT_SP:
        case RULE_SAVED_AT_FP:
            if (!can_load(r, at) || (rule->kind[i] == RULE_SAVED_AT_FP && is_lost(r, RULE_FP)))
                return -1;
            next.value[i] = i == RULE_FP ? rule_unmarked_fp(rule, load_word(at)) : load_word(at);
            next.lost &= ~(1u << i);
            break;
        case MALLOW_SAVED_IS_CFA:
            next.value[i] = at;
            next.lost &= ~(1u << i);
            break;
        case MALLOW_SAVED_UNDEFINED:
            if (i == MALLOW_RA)
                return 0;
            next.lost |= 1u << i;
            break;
        default:
            break;
        }
    }
    next.high = r->high;
    next.value[RULE_SP] = cfa;
    if (cfa <= r->value[RULE_SP] || cfa > r->high) {
        if (!rule->signal_frame && !(r->foreign && cfa > r->value[RULE_SP] && unwind_extend(&next.high, cfa)))
            return -1;
        if (rule->signal_frame) {
            next.foreign = !unwind_owns(u, cfa);
            next.high = next.foreign ? (cfa | (ARCH_PAGE - 1)) + 1 : u->high;
            if (next.foreign && !sys_readable(cfa & ~7ull))
                return -1;
        }
    }
    if (next.value[MALLOW_RA] == 0)
        return 0;
    if (rule == &rule_frame_pointer && !arch_follows_call(next.value[MALLOW_RA]))
        return -1;
    if (rule->signal_frame)
        next.value[MALLOW_RA] |= MALLOW_EXACT_PC;
    *r = next;
    return 1;
}

/* The context of an async function; 0: it cannot be found. */
static uint64_t context_of(struct registers *r, const struct mallow_rule *rule) {
    uint32_t which = rule->context_kind == MALLOW_CONTEXT_IN_REGISTER ? rule->context_at : rule->cfa_reg;
    if (is_lost(r, which))
        return 0;
    if (rule->context_kind == MALLOW_CONTEXT_IN_REGISTER)
        return r->value[which];
    uint64_t at = r->value[which] + (uint64_t)(int64_t)rule->cfa_offset - 8ull * rule->context_at;
    return can_load(r, at) ? load_word(at) : 0;
}

COLD uint32_t unwind_full(struct unwinder *u, uint64_t sp, uint8_t *cut) {
    struct registers r;
    arch_registers(r.value);
    r.foreign = !unwind_owns(u, r.value[RULE_SP]);
    r.lost = 0;
    r.high = r.foreign ? (r.value[RULE_SP] | (ARCH_PAGE - 1)) + 1 : u->high;
    uint64_t key = r.value[MALLOW_RA];
    uint32_t count = 0;
    *cut = 0;
    for (;;) {
        const struct mallow_rule *rule = rule_at(key);
        if (count > 0 && rule != NULL && rule->context_kind != MALLOW_CONTEXT_NONE && !u->stack_only) {
            /* What called it on the stack is what runs tasks. */
            int64_t callers = context_callers(context_of(&r, rule), u->fresh_places + count, u->limit - count, cut);
            if (callers >= 0) {
                for (uint32_t i = 0; i < callers; i++)
                    u->fresh_states[count + i] = (struct state){0};
                return count + (uint32_t)callers;
            }
        }
        int on = step(u, &r, rule);
        if (on <= 0) {
            *cut |= on < 0;
            break;
        }
        *cut |= rule == &rule_frame_pointer;
        if (count > 0 || r.value[RULE_SP] == sp) {
            if (count == u->limit) {
                *cut = 1;
                break;
            }
            u->fresh_states[count] = (struct state){.fp = r.value[RULE_FP]};
            u->fresh_places[count++] = (struct place){r.value[RULE_SP], r.value[MALLOW_RA]};
        }
        uint64_t pc = r.value[MALLOW_RA];
        key = (pc & MALLOW_EXACT_PC) != 0 ? pc & ~MALLOW_EXACT_PC : pc - 1;
    }
    return count;
}

/*
 * The rare walk: some rule needs rbx or r12 … r15 (the dynamic linker's resolver trampolines; functions that realign
 * their stack). It begins here, inside this library, with the registers as they are, and follows all of them by the
 * whole rules of every frame.
 */
#include "arch.h"
#include "base/sys.h"
#include "walk/modules.h"
#include "walk/unwind.h"

#define RSP MALLOW_CFA_RSP

/* Registers, in the order of enum mallow_saved with rsp last; the "return address" is the pc. */
struct registers {
    uint64_t value[MALLOW_SAVED_COUNT + 1];
    uint64_t high;
    int foreign;
    uint32_t lost; /* a bit for each register that is not known */
};

/* In an epilogue that a signal interrupted, the rule may name words that were popped already: they lie below rsp, and
 * still hold what they held (System V x86-64 ABI 3.2.2: a handler leaves 128 bytes there alone). */
#define RED_ZONE 128ull

static int can_load(struct registers *r, uint64_t address) {
    if (address < r->value[RSP] - RED_ZONE || address > UINT64_MAX - 16)
        return 0;
    return address + 8 <= r->high || (r->foreign && unwind_extend(&r->high, address + 8));
}

/* A frame that no table describes. */
static const struct mallow_rule frame_pointer_rule = {
    .cfa_kind = MALLOW_CFA_OFFSET,
    .cfa_reg = MALLOW_RBP,
    .cfa_offset = 16,
    .kind = {[MALLOW_RBX] = MALLOW_SAVED_UNDEFINED,
             [MALLOW_RBP] = MALLOW_SAVED_AT_CFA,
             [MALLOW_R12] = MALLOW_SAVED_UNDEFINED,
             [MALLOW_R13] = MALLOW_SAVED_UNDEFINED,
             [MALLOW_R14] = MALLOW_SAVED_UNDEFINED,
             [MALLOW_R15] = MALLOW_SAVED_UNDEFINED,
             [MALLOW_RA] = MALLOW_SAVED_AT_CFA},
    .offset = {[MALLOW_RBP] = -16, [MALLOW_RA] = -8},
};

/* NULL: there is a table, and it has none. */
static const struct mallow_rule *rule_at(uint64_t key) {
    const struct module *module = module_find(key);
    if (module == NULL || module->table == NULL)
        return &frame_pointer_rule;
    uint32_t index = module->full[module_row(module, key)];
    if (index == MALLOW_RULE_NONE || index >= module->table->rules)
        return NULL;
    return &module->rules[index];
}

static int is_lost(const struct registers *r, uint32_t which) {
    return (r->lost >> which & 1) != 0;
}

/* 1: r is the caller's; 0: there is none; -1: it cannot be told. */
static int step(struct unwinder *u, struct registers *r, const struct mallow_rule *rule) {
    if (rule == NULL || (rule->cfa_kind > MALLOW_CFA_END && is_lost(r, rule->cfa_reg)))
        return -1;
    uint64_t cfa = rule->cfa_reg <= RSP ? r->value[rule->cfa_reg] + (uint64_t)(int64_t)rule->cfa_offset : 0;
    switch (rule->cfa_kind) {
    case MALLOW_CFA_OFFSET:
        break;
    case MALLOW_CFA_PLT:
        cfa += (r->value[MALLOW_RA] & 15) >= (uint64_t)rule->cfa_extra ? 8 : 0;
        break;
    case MALLOW_CFA_DEREF:
        if (!can_load(r, cfa))
            return -1;
        cfa = load(cfa) + (uint64_t)(int64_t)rule->cfa_extra;
        break;
    case MALLOW_CFA_END:
        return 0;
    default:
        return -1;
    }
    struct registers next = *r;
    for (int i = 0; i < MALLOW_SAVED_COUNT; i++) {
        uint64_t offset = (uint64_t)(int64_t)rule->offset[i];
        uint64_t base = rule->kind[i] == MALLOW_SAVED_AT_RSP   ? r->value[RSP]
                        : rule->kind[i] == MALLOW_SAVED_AT_RBP ? r->value[MALLOW_RBP]
                                                               : cfa;
        uint64_t at = base + offset;
        switch (rule->kind[i]) {
        case MALLOW_SAVED_AT_CFA:
        case MALLOW_SAVED_AT_RSP:
        case MALLOW_SAVED_AT_RBP:
            if (!can_load(r, at) || (rule->kind[i] == MALLOW_SAVED_AT_RBP && is_lost(r, MALLOW_RBP)))
                return -1;
            next.value[i] = load(at);
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
    next.value[RSP] = cfa;
    if (cfa <= r->value[RSP] || cfa > r->high) {
        if (!rule->signal_frame && !(r->foreign && cfa > r->value[RSP] && unwind_extend(&next.high, cfa)))
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
    if (rule == &frame_pointer_rule && !arch_follows_call(next.value[MALLOW_RA]))
        return -1;
    if (rule->signal_frame)
        next.value[MALLOW_RA] |= MALLOW_EXACT_PC;
    *r = next;
    return 1;
}

COLD uint32_t unwind_full(struct unwinder *u, uint64_t sp, uint8_t *cut) {
    struct registers r;
    arch_registers(r.value);
    r.foreign = !unwind_owns(u, r.value[RSP]);
    r.lost = 0;
    r.high = r.foreign ? (r.value[RSP] | (ARCH_PAGE - 1)) + 1 : u->high;
    uint64_t key = r.value[MALLOW_RA];
    uint32_t count = 0;
    *cut = 0;
    for (;;) {
        const struct mallow_rule *rule = rule_at(key);
        int on = step(u, &r, rule);
        if (on <= 0) {
            *cut |= on < 0;
            break;
        }
        *cut |= rule == &frame_pointer_rule;
        if (count > 0 || r.value[RSP] == sp) {
            if (count == u->limit) {
                *cut = 1;
                break;
            }
            u->fresh_states[count] = (struct state){.rbp = r.value[MALLOW_RBP]};
            u->fresh_places[count++] = (struct place){r.value[RSP], r.value[MALLOW_RA]};
        }
        uint64_t pc = r.value[MALLOW_RA];
        key = (pc & MALLOW_EXACT_PC) != 0 ? pc & ~MALLOW_EXACT_PC : pc - 1;
    }
    return count;
}

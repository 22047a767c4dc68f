/* Call instructions: what a return address follows. */
#include "arch.h"
#include "base/sys.h"
#include "rule.h"

#include <string.h>

/*
 * Where there is no table, an address is taken for a return address if a call instruction ends there: e8 with 4 bytes,
 * or ff /2 with what its operand needs, 2 to 7 bytes in all. Code that is unmapped in between would be that of a frame
 * under way.
 */
COLD int arch_follows_call(uint64_t pc) {
    uint8_t code[8];
    if (pc < ARCH_PAGE || pc >> 47 != 0 || !sys_readable(pc - sizeof code))
        return 0;
    memcpy(code, (const void *)(pc - sizeof code), sizeof code);
    if (code[3] == 0xe8)
        return 1;
    for (unsigned length = 2; length <= 7; length++) {
        const uint8_t *at = &code[sizeof code - length];
        unsigned mode = at[1] >> 6, memory = at[1] & 7, has_index = mode != 3 && memory == 4;
        unsigned displacement = mode == 1 ? 1 : mode == 2 || (mode == 0 && memory == 5) ? 4 : 0;
        if (mode == 0 && has_index && length > 2 && (at[2] & 7) == 5)
            displacement = 4;
        if (at[0] == 0xff && (at[1] >> 3 & 7) == 2 && length == 2 + has_index + displacement)
            return 1;
    }
    return 0;
}

/* Bytes of a trampoline before its return address. */
#define BEFORE 6

/* Functions that call another one and return: their instructions, and the quick rule of the return address. */
static const struct {
    uint8_t code[11], bytes;
    uint16_t rule;
} trampolines[] = {
    /* sub $8, %rsp; call *%rcx; add $8, %rsp; ret */
    {{0x48, 0x83, 0xec, 8, 0xff, 0xd1, 0x48, 0x83, 0xc4, 8, 0xc3}, 11, MALLOW_QUICK_OFFSET_SP(16)},
    /* push %rbp; mov %rsp, %rbp; call *%rcx; pop %rbp; ret */
    {{0x55, 0x48, 0x89, 0xe5, 0xff, 0xd1, 0x5d, 0xc3}, 8, MALLOW_QUICK_OFFSET_SP_AND_RESTORE_BP(16, 16)},
};

COLD uint32_t arch_trampoline(uint64_t pc) {
    const uint64_t start = pc - BEFORE;
    if (pc < ARCH_PAGE || pc >> 47 != 0 || !sys_readable(start) || !sys_readable(start + sizeof trampolines->code - 8))
        return RULE_UNKNOWN;
    for (unsigned i = 0; i < sizeof trampolines / sizeof *trampolines; i++)
        if (memcmp((const void *)start, trampolines[i].code, trampolines[i].bytes) == 0)
            return trampolines[i].rule;
    return RULE_UNKNOWN;
}

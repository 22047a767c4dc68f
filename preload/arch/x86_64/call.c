/* Call instructions: what a return address follows. */
#include "arch.h"
#include "base/sys.h"

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

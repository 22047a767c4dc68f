/* Where the frames of glibc's exit end. */
#include "arch.h"
#include "base/sys.h"

#include <dlfcn.h>
#include <string.h>

/* The only call in exit is so far from its beginning, at the most: 26 in glibc 2.36. */
#define EXIT_BYTES 64
/* The dynamic linker puts a word for each module on its stack, beside its frames. */
#define SEARCHED_BYTES (64ull << 10)
/* The function that exit calls, __run_exit_handlers, begins with pushes of all six callee-saved registers. */
#define SAVED_BYTES (6 * sizeof(uint64_t))

uint64_t arch_exit_frames_end(uint64_t here) {
    uint64_t start = (uint64_t)dlsym(RTLD_DEFAULT, "exit"), top = arch_main_stack_top(), word;
    int is_main = here < top && top - here < ARCH_MAIN_STACK_ROOM;
    if (start == 0 || dlsym(RTLD_DEFAULT, "gnu_get_libc_version") == NULL)
        return here;
    for (uint64_t at = here & ~7ull; at < here + SEARCHED_BYTES; at += sizeof word) {
        if (is_main ? at >= top : at % ARCH_PAGE == 0 && !sys_readable(at))
            break;
        memcpy(&word, (const void *)at, sizeof word);
        /* An equal word of an older call is deeper: less is dead then than could be. */
        if (word - start < EXIT_BYTES)
            return at - SAVED_BYTES > here ? at - SAVED_BYTES : here;
    }
    return here;
}

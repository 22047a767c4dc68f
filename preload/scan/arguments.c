/*
 * A program may wipe a password from its command line, or write a title there. What it shows at its end is to be
 * recorded, and not what it has wiped. It lies in the process's own memory: /proc/self/cmdline has the same, but a
 * filter may forbid to open files by then.
 */
#include "scan/arguments.h"

#include "arch.h"
#include "base/target.h"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

/* argv[0]; NULL: not known. */
static const char *first;

/* The C library's: argv[0], until the program sets another one. musl has set it before constructors, and gives them no
 * arguments; glibc sets it in a constructor, after this one. */
extern char *program_invocation_name __attribute__((weak));

/* The kernel puts the executable's path above arguments and environment, on the main thread's stack. */
static const char *stack_text_end(void) {
    return (const char *)getauxval(AT_EXECFN);
}

/* A pointer so near below the executable's path is on that stack, all of which is mapped between the two; any other
 * one is not followed. The kernel takes 6 MiB of arguments and environment at the most. */
__attribute__((constructor)) static void find_first(int count, char **arguments) {
    const char *end = stack_text_end(), *name = &program_invocation_name == NULL ? NULL : program_invocation_name;
    if (environ == NULL && count > 0)
        name = arguments[0];
    if (name != NULL && name < end && (size_t)(end - name) <= (size_t)8 << 20)
        first = name;
}

void arguments_note(struct mallow_process *process) {
    size_t room = sizeof process->text - process->executable_len, length = process->arguments_len;
    const char *end = stack_text_end();
    if (first == NULL || length == 0 || length > room || length > (size_t)(end - first))
        return;
    /* As the kernel shows it: a title that is longer than the arguments were goes on over the environment. */
    if (first[length - 1] != 0)
        while (length < room && first + length < end && first[length] != 0)
            length++;
    memcpy(process->text + process->executable_len, first, length);
    process->arguments_len = (uint32_t)length;
}

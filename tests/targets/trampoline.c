/*
 * trampoline HOW: waits below code that it writes to memory of no file, and answers each line of input with the blocks that it
 * allocated for it.
 *   plain, frame  as CPython's trampolines for perf
 *   other         the same work by other instructions
 *   executes      as other; the first line has it become `sleep`
 */
#include "target.h"
#include <sys/mman.h>

/* sub $8,%rsp; call *%rcx; add $8,%rsp; ret */
static const unsigned char plain[] = {0x48, 0x83, 0xec, 0x08, 0xff, 0xd1, 0x48, 0x83, 0xc4, 0x08, 0xc3};
/* push %rbp; mov %rsp,%rbp; call *%rcx; pop %rbp; ret */
static const unsigned char frame[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd1, 0x5d, 0xc3};
/* sub $24,%rsp; call *%rcx; add $24,%rsp; ret */
static const unsigned char other[] = {0x48, 0x83, 0xec, 0x18, 0xff, 0xd1, 0x48, 0x83, 0xc4, 0x18, 0xc3};

typedef void called(void);
typedef void code(long a, long b, long c, called *called);

static code *written;

static int executes;

static void answer(void) {
    say("ready\n");
    while (line()) {
        if (executes)
            execlp("sleep", "sleep", "1000", NULL);
        int count = 0;
        for (; count < 100; count++)
            free(keep(malloc(100)));
        say("%d\n", count);
    }
}

/* One trampoline below the other, with functions that have unwind information between them. */
__attribute__((noinline)) static void outer(void) {
    written(1, 2, 3, answer);
    keep(NULL);
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    const unsigned char *bytes = arguments[1][0] == 'p' ? plain : arguments[1][0] == 'f' ? frame : other;
    executes = arguments[1][0] == 'e';
    size_t length = bytes == frame ? sizeof frame : sizeof plain;
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    memcpy(page, bytes, length);
    CHECK(mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0);
    memcpy(&written, &page, sizeof page);
    written(1, 2, 3, outer);
    return 0;
}

/* Calls as Go's runtime.asmcgocall makes them to C code, with goroutines that are none: whoever walks these stacks must not
 * read what the words lead to without looking whether it can be read. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096

void *block;

__attribute__((noinline, used)) void allocates(void) {
    block = malloc(123);
    free(block);
}

/* The instructions of runtime.asmcgocall from where it is on the stack of its thread, with this goroutine, and so far below the
 * top of its stack. They come back by rbp. */
void crosses(uint64_t goroutine, uint64_t depth);
__asm__(".text\n"
        ".type crosses, @function\n"
        "crosses:\n"
        ".byte 0x55, 0x48, 0x89, 0xe5\n" /* push %rbp; mov %rsp,%rbp */
        "push %rbx\n"
        "sub $24, %rsp\n"
        "mov %rsi, %rbx\n"
        "test %rdi, %rdi\n"
        "jz 1f\n"
        ".byte 0x48, 0x89, 0xe2\n" /* mov %rsp,%rdx */
        "jmp 2f\n"
        ".byte 0x48, 0x89, 0x7c, 0x24, 0x08\n" /* mov %rdi,8(%rsp) */
        ".byte 0x48, 0x8b, 0x7f, 0x08\n"       /* mov 8(%rdi),%rdi */
        ".byte 0x48, 0x29, 0xd7\n"             /* sub %rdx,%rdi */
        ".byte 0x48, 0x89, 0x3c, 0x24\n"       /* mov %rdi,(%rsp) */
        "3: call allocates\n"
        "1: add $24, %rsp\n"
        "pop %rbx\n"
        "pop %rbp\n"
        "ret\n"
        "2: mov %rdi, 8(%rsp)\n"
        "mov %rbx, (%rsp)\n"
        "jmp 3b\n"
        ".size crosses, . - crosses\n");

int main(void) {
    /* Two pages, and nothing behind them. */
    char *memory = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || munmap(memory + 2 * PAGE, PAGE) != 0)
        return 1;
    uint64_t start = (uint64_t)memory, end = start + 2 * PAGE;
    const uint64_t addresses[] = {8,       7,   0x800000000000,  UINT64_MAX - 7, UINT64_MAX & ~0xfffull,
                                  end - 8, end, (uint64_t)&main, start};
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++)
        crosses(addresses[i], 64);
    const uint64_t bounds[] = {0,   8,          start,      start + 8,      end - 16,       end - 8,
                               end, end + PAGE, 1ull << 46, 0x800000000000, UINT64_MAX - 7, UINT64_MAX};
    const uint64_t depths[] = {0,         8, 16, 17, 64, 2 * PAGE, 1ull << 31, 1ull << 46, 1ull << 63, UINT64_MAX - 15,
                               UINT64_MAX};
    size_t count = sizeof bounds / sizeof *bounds;
    for (size_t i = 0; i < count * count; i++)
        for (size_t d = 0; d < sizeof depths / sizeof *depths; d++) {
            uint64_t stack[2] = {bounds[i / count], bounds[i % count]};
            memset(memory, 0xff, 2 * PAGE);
            memcpy(memory, stack, sizeof stack);
            crosses(start, depths[d]);
        }
    puts("done");
    return 0;
}

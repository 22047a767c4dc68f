// Blocks that main's frame alone points to when the program ends.
//
//   returned return     main returns: nothing points to them
//   returned exit       main calls exit: its frame still stands
//   returned register   main calls exit, and a callee-saved register has the only pointer
#include <stdlib.h>
#include <string.h>

#define OUT    __attribute__((noinline, noclone))
#define BLOCKS 64

OUT static void *of_main(void) {
    return memset(malloc(192), 0, 192);
}

OUT static void *of_register(void) {
    return memset(malloc(320), 0, 320);
}

OUT static void clobber(void) {
    volatile char stack[16384];
    memset((void *)stack, 0, sizeof stack);
}

int main(int argc, char **argv) {
    void *volatile held[BLOCKS];
    if (argc < 2)
        return 2;
    if (!strcmp(argv[1], "register")) {
        register void *block __asm__("r14") = of_register();
        __asm__ volatile("" : "+r"(block));
        clobber();
        __asm__ volatile("and $-16, %%rsp\n\txor %%edi, %%edi\n\tcall exit@PLT" ::"r"(block) : "memory");
    }
    for (int i = 0; i < BLOCKS; i++)
        held[i] = of_main();
    if (!strcmp(argv[1], "exit"))
        exit(0);
    return (int)((size_t)held[0] & 7);
}

/* hoard BLOCKS SIZE: holds so many blocks of so many bytes at one site, and ten large ones at another, and writes `ready`. It ends
 * with its standard input, or after two minutes. */
#include "target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((noinline)) static void *keep_small(size_t size) {
    char *block = malloc(size);
    if (block == NULL)
        abort();
    memset(block, 1, size);
    __asm__ volatile("" ::"r"(block) : "memory");
    return block;
}

__attribute__((noinline)) static void *keep_large(void) {
    char *block = malloc(1 << 20);
    if (block == NULL)
        abort();
    block[0] = 1;
    __asm__ volatile("" ::"r"(block) : "memory");
    return block;
}

int main(int argc, char **argv) {
    alarm(120);
    long blocks = argc > 1 ? atol(argv[1]) : 1000;
    size_t size = argc > 2 ? (size_t)atol(argv[2]) : 100;
    static void *large[10];
    for (long i = 0; i < blocks; i++)
        keep_small(size);
    for (int i = 0; i < 10; i++)
        large[i] = keep_large();
    if (write(1, "ready\n", 6) != 6)
        return 1;
    char byte;
    while (read(0, &byte, 1) > 0)
        continue;
    return large[0] == NULL;
}

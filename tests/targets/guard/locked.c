/* Locks all of its memory, makes blocks of zeros until slots are used again, and reads a block that it has freed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static volatile char sink;

__attribute__((noinline)) static void culprit_read(volatile char *at) {
    sink = *at;
    __asm__ volatile("" ::: "memory");
}

int main(void) {
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
        puts("not locked");
        return 0;
    }
    long bad = 0;
    for (int i = 0; i < 12000; i++) {
        size_t size = 100 + (size_t)i % 3000;
        char *block = calloc(1, size);
        for (size_t at = 0; at < size; at++)
            bad += block[at] != 0;
        memset(block, 7, size);
        free(block);
    }
    char *block = malloc(64);
    free(block);
    culprit_read(block);
    printf("bad: %ld\n", bad);
    return 0;
}

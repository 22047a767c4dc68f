/* errors COUNT SIZE: COUNT times a block of SIZE bytes is freed, and read after that. Each is found if the block was guarded, which an
 * allocation is by chance with --sample. Slots have time to become ready: else blocks of others would take them. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile char sink;

__attribute__((noinline)) static void culprit_read(volatile char *at) {
    sink = *at;
    __asm__ volatile("" ::: "memory");
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    size_t size = strtoul(argv[2], NULL, 10);
    for (long left = strtol(argv[1], NULL, 10); left > 0; left--) {
        volatile char *block = malloc(size);
        block[0] = 1;
        free((void *)block);
        culprit_read(block);
        if (left % 16 == 0)
            usleep(1000);
    }
    puts("went on");
    return 0;
}

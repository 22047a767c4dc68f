/* Locks all memory that comes before it allocates anything, reads behind a block, and a block that it has freed. */
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
    char *block = malloc(64);
    memset(block, 7, 64);
    culprit_read(block + 64);
    free(block);
    /* In another area, which is opened now. */
    char *other = malloc(20000);
    free(other);
    culprit_read(other);
    puts("went on");
    return 0;
}

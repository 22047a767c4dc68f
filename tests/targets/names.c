/*
 * names: six functions that allocate, each in its turn, some milliseconds apart. `name_0` … `name_5` are given other names in the
 * symbol table by who tests with them.
 *
 *   name_N        has N + 1 blocks of 1000 bytes, and 10 of 16 bytes that it frees at once; the blocks of odd N are freed at the end
 */
#include <time.h>

#include "target.h"

#define FUNCTION(number)                                                                                               \
    __attribute__((noinline)) void name_##number(void **blocks) {                                                      \
        for (int i = 0; i <= number; i++)                                                                              \
            blocks[i] = keep(malloc(1000));                                                                            \
        for (int i = 0; i < 10; i++)                                                                                   \
            free(keep(malloc(16)));                                                                                    \
        keep(NULL);                                                                                                    \
    }

FUNCTION(0)
FUNCTION(1)
FUNCTION(2)
FUNCTION(3)
FUNCTION(4)
FUNCTION(5)

int main(void) {
    static void (*const functions[])(void **) = {name_0, name_1, name_2, name_3, name_4, name_5};
    static void *blocks[6][6];
    for (int n = 0; n < 6; n++) {
        functions[n](blocks[n]);
        nanosleep(&(struct timespec){.tv_nsec = 40000000}, NULL);
    }
    for (int n = 1; n < 6; n += 2)
        for (int i = 0; i <= n; i++)
            free(blocks[n][i]);
    return 0;
}

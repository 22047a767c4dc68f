/*
 * Gives blocks of malloc to functions of jemalloc's that are not malloc's own, as programs do that jemalloc allows to:
 * foreign [not]: with an argument by free alone.
 */
#include <stdio.h>
#include <stdlib.h>

void sdallocx(void *block, size_t size, int flags);
void dallocx(void *block, int flags);
void *rallocx(void *block, size_t size, int flags);

int main(int argc, char **argv) {
    (void)argv;
    for (int i = 0; i < 2000; i++) {
        char *block = malloc(30000);
        block[29999] = 1;
        if (argc > 1) {
            free(block);
        } else if (i % 2 != 0) {
            sdallocx(block, 30000, 0);
        } else {
            block = rallocx(block, 40000, 0);
            if (block[29999] != 1)
                return 1;
            dallocx(block, 0);
        }
    }
    puts("done");
    return 0;
}

/* Takes 16 MB in blocks of 64 KiB, keeps them for eight seconds, gives them back in five, and ends. */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 250, SIZE = 1 << 16 };

static char *blocks[BLOCKS];

__attribute__((noinline)) static void take(void) {
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(SIZE);
        if (blocks[i] == NULL)
            exit(1);
        memset(blocks[i], 1, SIZE);
    }
}

int main(void) {
    take();
    sleep(8);
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
        usleep(20000);
    }
    return 0;
}

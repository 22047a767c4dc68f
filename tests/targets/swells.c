/* Takes so many blocks of a megabyte, one each 20 ms, and touches them; then it waits for a signal.
 *
 *     swells MEGABYTES
 */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((noinline)) static char *swell(void) {
    enum { SIZE = 1 << 20 };
    char *block = malloc(SIZE);
    if (block == NULL)
        exit(1);
    memset(block, 1, SIZE);
    return block;
}

int main(int argc, char **argv) {
    const int most = argc > 1 ? atoi(argv[1]) : 10;
    char **blocks = calloc((size_t)most + 1, sizeof *blocks);
    if (blocks == NULL)
        return 1;
    for (int i = 0; i < most; i++) {
        blocks[i] = swell();
        usleep(20000);
    }
    alarm(120);
    pause();
    return blocks[0][0] != 1;
}

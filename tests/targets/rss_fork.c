/* A process with 20 MB of blocks, and one of 5 MB that has a mapping of its own, forks: the child has them, too, and
   allocates as much again. Both live until standard input ends: whoever runs them knows when the child was read. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 20000, SIZE = 1000, LARGE = 5000000 };

static char *blocks[2][BLOCKS];

__attribute__((noinline)) static void fill(int which) {
    for (int n = 0; n < BLOCKS; n++) {
        blocks[which][n] = malloc(SIZE);
        memset(blocks[which][n], 7, SIZE);
    }
}

static char *volatile large[2];

__attribute__((noinline)) static void fill_large(int which) {
    large[which] = malloc(LARGE);
    memset(large[which], 7, LARGE);
}

int main(void) {
    fill(0);
    fill_large(0);
    pid_t child = fork();
    if (child < 0)
        return 1;
    if (child == 0) {
        fill(1);
        fill_large(1);
        char byte;
        exit(read(STDIN_FILENO, &byte, 1) == 0 ? 0 : 1);
    }
    printf("%d\n", (int)child);
    int status;
    return waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}

/* Allocates and frees all the time, and knows when: `burst MILLISECONDS FILE` writes three numbers of 64 bits of each step, the
 * time on the wall before it and after it in nanoseconds, and 1 for an allocation, 0 for a free. */
#include "target.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BLOCKS 1000
#define BYTES  65536
#define STEPS  400000

static uint64_t log_of[STEPS][3];
static void *blocks[BLOCKS];

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    uint64_t end = now() + strtoull(argv[1], NULL, 10) * 1000000u;
    size_t steps = 0;
    while (steps < STEPS && now() < end) {
        size_t place = steps % (2 * BLOCKS);
        uint64_t before = now();
        if (place < BLOCKS && (blocks[place] = malloc(BYTES)) == NULL)
            abort();
        if (place >= BLOCKS)
            free(blocks[place - BLOCKS]);
        log_of[steps][0] = before;
        log_of[steps][1] = now();
        log_of[steps][2] = place < BLOCKS;
        steps++;
        /* A step in 50 us: a heap that goes up and down by 20 blocks a millisecond. */
        while (now() < before + 50000)
            continue;
    }
    FILE *file = fopen(argv[2], "wb");
    if (file == NULL || fwrite(log_of, sizeof log_of[0], steps, file) != steps || fclose(file) != 0)
        abort();
    return 0;
}

/* Allocates and frees until SIGTERM, and logs when: `burst FILE` writes three numbers of 64 bits of each step, the time on the
 * wall before it and after it in nanoseconds, and 1 for an allocation, 0 for a free. */
#include "target.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define BLOCKS 1000
#define BYTES  65536
#define STEPS  600000

static uint64_t log_of[STEPS][3];
static void *blocks[BLOCKS];

static volatile sig_atomic_t ended;

static void on_term(int signal) {
    (void)signal;
    ended = 1;
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

int main(int argc, char **argv) {
    if (argc < 2)
        return 2;
    /* Whatever becomes of the test. */
    alarm(120);
    signal(SIGTERM, on_term);
    size_t steps = 0;
    while (steps < STEPS && !ended) {
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
        /* A heap that goes up and down by some ten blocks a millisecond. */
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    }
    FILE *file = fopen(argv[1], "wb");
    if (file == NULL || fwrite(log_of, sizeof log_of[0], steps, file) != steps || fclose(file) != 0)
        abort();
    return 0;
}

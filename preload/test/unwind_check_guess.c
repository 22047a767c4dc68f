/*
 * Follows the same call paths again and again, so that stacks are guessed, and strays from them in all that a guess
 * must notice: another caller at the same depth, another caller with a frame of the same size further out, frames that
 * grow by alloca, other functions at the end, and rbp used for other things in between.
 */
#include <alloca.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH     12
#define PATHS     48
#define FUNCTIONS 16

/* A call path's byte: whom to call, by how much to grow, whether to allocate before and after. */
#define FUNCTION 15
#define SIZE     48
#define BEFORE   64
#define AFTER    128

typedef void step(const uint8_t *path, int depth);
static step *const steps[FUNCTIONS];

static uint64_t seed = 1;
static void *volatile kept[8];

static uint32_t dice(uint32_t sides) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(seed >> 33) % sides;
}

__attribute__((noinline)) static void allocate(int n) {
    void *old = kept[n & 7];
    kept[n & 7] = malloc((size_t)n * 16 + 1);
    __asm__ volatile("" : : "r"(old) : "memory");
    free(old);
}

__attribute__((noinline)) static void *allocate_through(size_t bytes) {
    void *block = calloc(1, bytes);
    __asm__ volatile("" : "+r"(block) : : "memory");
    return block;
}

static void go_on(const uint8_t *path, int depth) {
    if (depth + 1 < DEPTH)
        steps[path[depth + 1] & FUNCTION](path, depth + 1);
}

#define STEP(number, bytes, attributes, extra)                                                                         \
    __attribute__((noinline, noclone)) attributes static void step_##number(const uint8_t *path, int depth) {          \
        volatile char room[bytes];                                                                                     \
        room[0] = (char)depth;                                                                                         \
        extra;                                                                                                         \
        if ((path[depth] & BEFORE) != 0)                                                                               \
            allocate(number);                                                                                          \
        go_on(path, depth);                                                                                            \
        if ((path[depth] & AFTER) != 0)                                                                                \
            free(allocate_through(number + 1));                                                                        \
        room[bytes - 1] = room[0];                                                                                     \
    }

#define NOTHING ((void)0)

#define GROWING                                                                                                        \
    volatile char *more = alloca(32 + 2 * (size_t)(path[depth] & SIZE));                                               \
    more[0] = 1

#define FRAME_POINTER __attribute__((optimize("no-omit-frame-pointer")))

STEP(0, 16, , NOTHING)
STEP(1, 16, , NOTHING)
STEP(2, 16, , NOTHING)
STEP(3, 48, , NOTHING)
STEP(4, 48, , NOTHING)
STEP(5, 200, , NOTHING)
STEP(6, 5000, , NOTHING)
STEP(7, 16, FRAME_POINTER, NOTHING)
STEP(8, 16, FRAME_POINTER, NOTHING)
STEP(9, 48, FRAME_POINTER, NOTHING)
STEP(10, 16, , GROWING)
STEP(11, 48, , GROWING)
STEP(12, 16, , allocate(12))
STEP(13, 48, , free(allocate_through(20)))
STEP(14, 600, FRAME_POINTER, allocate(14))
STEP(15, 9000, FRAME_POINTER, NOTHING)

static step *const steps[FUNCTIONS] = {step_0, step_1, step_2,  step_3,  step_4,  step_5,  step_6,  step_7,
                                       step_8, step_9, step_10, step_11, step_12, step_13, step_14, step_15};

/* A call path that a guess could take for this one: a step with an equal frame in the place of another, or two frames
 * that grow, one by as much more as the other grows less. */
static void make_sibling(uint8_t *path) {
    static const uint8_t equal[FUNCTIONS] = {1, 2, 0, 4, 3, 5, 6, 8, 7, 9, 10, 11, 12, 13, 14, 15};
    int at = (int)dice(DEPTH - 3);
    if (dice(2) == 0) {
        path[at] = (uint8_t)((path[at] & ~FUNCTION) | equal[path[at] & FUNCTION]);
        return;
    }
    for (int i = at; i < at + 2; i++)
        path[i] = (uint8_t)((path[i] & ~(FUNCTION | SIZE)) | 10 | (dice(4) * 16));
}

/* Most allocate at their end alone: what lies further out can change without being seen. */
static void make_path(uint8_t *path) {
    uint32_t quiet = dice(3) == 0 ? 0 : DEPTH - 2;
    for (uint32_t k = 0; k < DEPTH; k++)
        path[k] = (uint8_t)(k < quiet ? dice(64) : dice(256));
}

/*
 * Three call paths. The first teaches what follows an allocation before the last step's call. The second has a frame
 * that is larger by as much as its caller's is smaller; in the third, where the return address from it was lies in what
 * its caller has set aside and not written to: all that the guess compares is as it was but where that frame ends.
 */
static void make_three(uint8_t (*paths)[DEPTH]) {
    for (int i = 0; i < 3; i++) {
        memset(paths[i], 0, DEPTH);
        paths[i][DEPTH - 3] = i == 1 ? 10 : 10 | SIZE;
        paths[i][DEPTH - 2] = i == 1 ? 10 | SIZE : 10;
        paths[i][DEPTH - 1] = i == 0 ? BEFORE | AFTER : i == 1 ? BEFORE : AFTER;
    }
}

static void go(const uint8_t *from) {
    uint8_t path[DEPTH];
    memcpy(path, from, sizeof path);
    if (dice(16) == 0)
        path[dice(DEPTH)] ^= (uint8_t)(1u << dice(8));
    if (dice(8) == 0)
        make_sibling(path);
    steps[path[0] & FUNCTION](path, 0);
}

int main(int argc, char **argv) {
    static uint8_t paths[PATHS][DEPTH];
    int rounds = argc > 1 ? atoi(argv[1]) : 1000;
    for (int i = 0; i < PATHS; i++) {
        if (i % 4 == 0) {
            make_path(paths[i]);
            continue;
        }
        memcpy(paths[i], paths[i - 1], DEPTH);
        make_sibling(paths[i]);
    }
    make_three(paths);
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < PATHS; i++)
            go(paths[i]);
    puts("done");
    return 0;
}

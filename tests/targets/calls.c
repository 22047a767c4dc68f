/*
 * calls: a few functions that allocate, on call paths that can be counted by hand.
 *
 *   left          calls shared twice: 2 × 3 blocks of 10 bytes
 *   right         calls shared once: 3 blocks of 10 bytes; and has one of 1000 bytes of its own, through an inlined function
 *   descend       calls itself through step, 5 deep, with a block of 100 bytes on each level
 *   main          has 2 blocks of 7 bytes of its own
 */
#include "target.h"

__attribute__((noinline)) static void shared(void) {
    for (int i = 0; i < 3; i++)
        free(keep(malloc(10)));
}

static inline __attribute__((always_inline)) void *fresh(size_t size) {
    void *block = malloc(size);
    return keep(block);
}

__attribute__((noinline)) static void left(void) {
    shared();
    shared();
    keep(NULL);
}

__attribute__((noinline)) static void right(void) {
    shared();
    free(fresh(1000));
}

static void descend(int left_to_go);

__attribute__((noinline)) static void step(int left_to_go) {
    descend(left_to_go - 1);
    keep(NULL);
}

__attribute__((noinline)) static void descend(int left_to_go) {
    void *block = keep(malloc(100));
    if (left_to_go > 1)
        step(left_to_go);
    free(block);
}

int main(void) {
    left();
    right();
    descend(5);
    free(keep(malloc(7)));
    free(keep(malloc(7)));
    return 0;
}

/*
 * A library that is built twice, so that one can take the place of the other: with the same code, and another build-id.
 */
#include <stdlib.h>

__attribute__((visibility("default"))) const char *const name = PLUGIN;

__attribute__((visibility("default"))) void *allocate(size_t size);

void *allocate(size_t size) {
    void *block = malloc(size);
    __asm__ volatile("" : "+r"(block)); /* a frame of its own: no tail call */
    return block;
}

/* Samples as a process file has them. */
#ifndef MALLOW_SAMPLES_H
#define MALLOW_SAMPLES_H

#include "reader.h"

/* A run in which everything of some 50 bytes and more is picked, unless the test says otherwise. */
void samples_make(struct reading *reading, uint64_t period);

struct mallow_sampling *samples_of(const struct image *image);

/* Live samples, and one of them; their number on from 0. */
uint32_t samples_live(const struct image *image);
const struct mallow_slot *sample_live(const struct image *image, uint32_t number);

/* End `number`, on from 1. Fails the test where it was overwritten, or is none. */
const struct mallow_end *sample_end(const struct image *image, uint64_t number);

/* Return addresses of a stack; fails the test where there are none, or it is not in the store. */
const struct mallow_stack *sample_stack(const struct image *image, uint32_t stack);

/*
 * "malloc 100; free; calloc 30; realloc": ends in their order, each with its beginning; then what lives, "[malloc 10]".
 */
const char *samples_text(const struct image *image);

/* Fails the test where a sample was lost without being counted. */
void samples_check_losses(const struct image *image);

#endif

/*
 * The tests in mallow's place: a run directory with a control page, a program
 * under libmallow.so, and what it wrote. Rings are read while it runs, as
 * mallow does; counters stay in the mapped process files.
 */
#ifndef MALLOW_READER_H
#define MALLOW_READER_H

#include "base/wire.h"

#include <stddef.h>
#include <sys/types.h>

#define IMAGES_MOST  64u
#define THREADS_MOST 64u

/* What one process image wrote. */
struct image {
    uint32_t pid, serial;
    struct mallow_process *process; /* the whole file, mapped */
    struct mallow_module *modules;
    struct mallow_thread *threads;
    struct words {
        uint64_t *word; /* what was read so far, without PAD records */
        size_t count, capacity;
    } ring[THREADS_MOST];
};

struct reading {
    char directory[256];
    struct mallow_control *control;
    int deaf; /* the reader does nothing, as if it were dead */
    pid_t pid;
    int status; /* as of waitpid */
    unsigned images;
    struct image image[IMAGES_MOST]; /* by pid, then serial; a pid's first image
                                        comes before its children's */
};

/* Makes a run directory and its control page, which the test may change before
 * it starts a program. */
void reading_make(struct reading *reading, enum mallow_mode mode);

/* Starts a scenario of this program under libmallow.so, with `underlying`
 * preloaded after it unless that is NULL. Call reading_finish, or
 * reading_until_stopped and then reading_finish. */
void reading_start(struct reading *reading, const char *scenario, const char *underlying);

/* Reads until the scenario stops itself with SIGSTOP; and lets it go on. */
void reading_until_stopped(struct reading *reading);
void reading_continue(const struct reading *reading);

/* Reads until the scenario has ended and nothing is left to read. */
void reading_finish(struct reading *reading);

/* All of it. The scenario must exit with 0. */
void reading_run(struct reading *reading, enum mallow_mode mode, const char *scenario);

/* The image of a pid. Fails the test where there is none. */
struct image *reading_image(struct reading *reading, pid_t pid, uint32_t serial);

/* The only image. Fails the test where there are none or more. */
struct image *reading_only(struct reading *reading);

/* Sums over all thread blocks of an image. */
struct sums {
    struct mallow_counter counter[MALLOW_FAMILY_COUNT];
    uint64_t frees, realloc_frees, realloc_in_place, realloc_moved, lost;
};
struct sums image_sums(const struct image *image);

#endif

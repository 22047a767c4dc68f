/* What counters and rings say, as text that a test can be compared with. */
#ifndef MALLOW_STORY_H
#define MALLOW_STORY_H

#include "reader.h"

/* A stack as decoded from the ring, root first. */
struct story_stack {
    uint64_t *pc;
    uint32_t depth;
    int cut;
};

struct event {
    uint64_t op, flags, argument, size;
    uint32_t stack; /* index into stacks, of events that carry one */
};

/* A ring's records: decoded, and found to be as wire.h has them. */
struct story {
    struct event *event; /* all but STACK */
    size_t events;
    struct story_stack *stack;
    size_t stacks;
};

/* Fails the test where a record contradicts wire.h. */
struct story story_of(const struct words *words);

/* Events of one kind. */
size_t story_count(const struct story *story, uint64_t op);

/*
 * The counters that are not 0: "malloc 2/150, frees 1" are two calls of malloc
 * for 150 bytes in all. Also "frees", "realloc_frees", "in_place", "moved",
 * "lost", "unrecorded".
 */
const char *counts_text(const struct image *image);

/*
 * Allocations and frees of one ring: "a=malloc 100; free a". Blocks are named
 * in order of their allocation; one that was moved has a new name, one that
 * stays in place keeps its own. "?" was not allocated in this ring.
 */
const char *events_text(const struct image *image, uint32_t ring);

#endif

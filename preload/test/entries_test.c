/*
 * One test per entry point and mode: a scenario calls it in a program under
 * libmallow.so; its counters and its events must be the ones expected.
 * CASE(name, counters, events) { calls }
 */
#include "story.h"
#include "test.h"

#include <errno.h>
#include <malloc.h>

/* The scenario allocates nothing else: what is expected is everything. */
static void check_counts(const char *scenario, const char *expected) {
    static struct reading reading;
    reading_run(&reading, MALLOW_MODE_COUNT, scenario);
    CHECK_TEXT(reading.images == 0 ? "" : counts_text(reading_only(&reading)), expected);
}

static void check_events(const char *scenario, const char *expected) {
    static struct reading reading;
    reading_run(&reading, MALLOW_MODE_TRACE, scenario);
    CHECK_TEXT(reading.images == 0 ? "" : events_text(reading_only(&reading), 0), expected);
}

#define CASE(name, counters, events)                                                                                   \
    TEST(count_##name) {                                                                                               \
        check_counts(#name, counters);                                                                                 \
    }                                                                                                                  \
    TEST(trace_##name) {                                                                                               \
        check_events(#name, events);                                                                                   \
    }                                                                                                                  \
    SCENARIO(name)

/* Unknown to the compiler, which refuses such calls. */
static volatile size_t huge = SIZE_MAX / 2;

static int is_aligned(const void *block, size_t alignment) {
    return block != NULL && (uintptr_t)block % alignment == 0;
}

CASE(nothing, "", "") {}

CASE(malloc_and_free, "malloc 1/100, frees 1", "a=malloc 100; free a") {
    errno = 77;
    char *a = malloc(100);
    CHECK(is_aligned(a, 16));
    memset(a, 1, 100);
    free(a);
    CHECK(errno == 77);
}

CASE(malloc_twice, "malloc 2/30, frees 2", "a=malloc 10; b=malloc 20; free a; free b") {
    void *a = malloc(10), *b = malloc(20);
    free(a);
    free(b);
}

CASE(malloc_zero, "malloc 1/0, frees 1", "a=malloc 0; free a") {
    void *a = malloc(0);
    CHECK(a != NULL);
    free(a);
}

CASE(malloc_fails, "", "") {
    errno = 0;
    CHECK(malloc(huge) == NULL && errno == ENOMEM);
}

CASE(free_null, "", "") {
    free(NULL);
}

CASE(calloc_product, "calloc 2/41, frees 2", "a=calloc 21; b=calloc 20; free a; free b") {
    char *a = calloc(3, 7), *b = calloc(4, 5);
    CHECK(a != NULL && a[0] == 0 && a[20] == 0);
    CHECK(b != NULL && b[0] == 0 && b[19] == 0);
    free(a);
    free(b);
}

CASE(calloc_zero, "calloc 2/0, frees 2", "a=calloc 0; b=calloc 0; free a; free b") {
    void *a = calloc(0, 7), *b = calloc(7, 0);
    CHECK(a != NULL && b != NULL);
    free(a);
    free(b);
}

CASE(calloc_overflows, "", "") {
    errno = 0;
    CHECK(calloc(huge, 3) == NULL && errno == ENOMEM);
    CHECK(calloc(huge, 1) == NULL);
}

CASE(realloc_of_null, "realloc 1/30, frees 1", "a=realloc 30; free a") {
    void *a = realloc(NULL, 30);
    CHECK(a != NULL);
    free(a);
}

CASE(realloc_in_place, "malloc 1/1000, realloc 1/990, frees 1, realloc_frees 1, in_place 1",
     "a=malloc 1000; begin a; a=realloc 990; free a") {
    void *a = malloc(1000);
    uintptr_t address = (uintptr_t)a;
    a = realloc(a, 990);
    CHECK((uintptr_t)a == address);
    free(a);
}

CASE(realloc_moved, "malloc 2/200, realloc 1/100000, frees 2, realloc_frees 1, moved 1",
     "a=malloc 100; b=malloc 100; begin a; c=realloc 100000; free c; free b") {
    char *a = malloc(100), *b = malloc(100);
    strcpy(a, "kept");
    char *c = realloc(a, 100000);
    CHECK(c != NULL && c != a && strcmp(c, "kept") == 0);
    free(c);
    free(b);
}

CASE(realloc_to_zero, "malloc 1/100, realloc_frees 1", "a=malloc 100; begin a; freed") {
    CHECK(realloc(malloc(100), 0) == NULL);
}

CASE(realloc_fails, "malloc 1/100, frees 1", "a=malloc 100; begin a; failed; free a") {
    char *a = malloc(100);
    strcpy(a, "kept");
    errno = 0;
    CHECK(realloc(a, huge) == NULL && errno == ENOMEM && strcmp(a, "kept") == 0);
    free(a);
}

CASE(realloc_of_null_to_zero, "realloc 1/0, frees 1", "a=realloc 0; free a") {
    void *a = realloc(NULL, 0);
    CHECK(a != NULL);
    free(a);
}

CASE(reallocarray_of_null, "reallocarray 1/30, frees 1", "a=reallocarray 30; free a") {
    void *a = reallocarray(NULL, 3, 10);
    CHECK(a != NULL);
    free(a);
}

CASE(reallocarray_in_place, "malloc 1/1000, reallocarray 1/990, frees 1, realloc_frees 1, in_place 1",
     "a=malloc 1000; begin a; a=reallocarray 990; free a") {
    void *a = malloc(1000);
    uintptr_t address = (uintptr_t)a;
    a = reallocarray(a, 99, 10);
    CHECK((uintptr_t)a == address);
    free(a);
}

CASE(reallocarray_moved, "malloc 2/200, reallocarray 1/100000, frees 2, realloc_frees 1, moved 1",
     "a=malloc 100; b=malloc 100; begin a; c=reallocarray 100000; free c; free "
     "b") {
    void *a = malloc(100), *b = malloc(100), *c = reallocarray(a, 1000, 100);
    CHECK(c != NULL && c != a);
    free(c);
    free(b);
}

CASE(reallocarray_to_zero, "malloc 1/100, realloc_frees 1", "a=malloc 100; begin a; freed") {
    CHECK(reallocarray(malloc(100), 0, 10) == NULL);
}

/* No call of the underlying allocator: no event. */
CASE(reallocarray_overflows, "malloc 1/100, frees 1", "a=malloc 100; free a") {
    char *a = malloc(100);
    strcpy(a, "kept");
    errno = 0;
    CHECK(reallocarray(a, huge, 3) == NULL && errno == ENOMEM && strcmp(a, "kept") == 0);
    free(a);
}

CASE(aligned_alloc_aligns, "aligned_alloc 1/50, frees 1", "a=aligned_alloc 50; free a") {
    void *a = aligned_alloc(256, 50);
    CHECK(is_aligned(a, 256));
    free(a);
}

CASE(aligned_alloc_fails, "", "") {
    CHECK(aligned_alloc(256, huge) == NULL);
}

CASE(memalign_aligns, "memalign 1/50, frees 1", "a=memalign 50; free a") {
    void *a = memalign(1024, 50);
    CHECK(is_aligned(a, 1024));
    free(a);
}

CASE(memalign_fails, "", "") {
    CHECK(memalign(1024, huge) == NULL);
}

CASE(posix_memalign_aligns, "posix_memalign 1/50, frees 1", "a=posix_memalign 50; free a") {
    void *a = NULL;
    errno = 77;
    CHECK(posix_memalign(&a, 4096, 50) == 0 && is_aligned(a, 4096) && errno == 77);
    free(a);
}

CASE(posix_memalign_fails, "", "") {
    void *a = &a;
    CHECK(posix_memalign(&a, 3, 50) == EINVAL && a == &a);
    CHECK(posix_memalign(&a, 64, huge) == ENOMEM && a == &a);
}

CASE(valloc_aligns, "valloc 1/50, frees 1", "a=valloc 50; free a") {
    void *a = valloc(50);
    CHECK(is_aligned(a, 4096));
    free(a);
}

CASE(valloc_fails, "", "") {
    CHECK(valloc(huge) == NULL);
}

/* Bytes are as requested, not as rounded up. */
CASE(pvalloc_aligns, "pvalloc 1/50, frees 1", "a=pvalloc 50; free a") {
    void *a = pvalloc(50);
    CHECK(is_aligned(a, 4096) && malloc_usable_size(a) >= 4096);
    free(a);
}

CASE(pvalloc_fails, "", "") {
    CHECK(pvalloc(huge) == NULL);
}

CASE(an_address_again, "malloc 2/200, frees 2", "a=malloc 100; free a; b=malloc 100; free b") {
    void *a = malloc(100);
    uintptr_t address = (uintptr_t)a;
    free(a);
    void *b = malloc(100);
    CHECK((uintptr_t)b == address);
    free(b);
}

CASE(the_c_librarys_own_calls, "malloc 1/6, frees 1", "a=malloc 6; free a") {
    char *a = strdup("mallow" + 1);
    CHECK(strcmp(a, "allow") == 0);
    free(a);
}

/* ---- with an underlying allocator ---- */

#define TERABYTE (1ull << 40)

SCENARIO(more_than_there_is) {
    void *a = malloc(TERABYTE - 1), *b = malloc(TERABYTE);
    a = realloc(a, 5 * TERABYTE + 3);
    void *c = calloc(TERABYTE, 3);
    CHECK(a != NULL && b != NULL && c != NULL);
    CHECK((uintptr_t)valloc(7) == 0x7ffffffff000);
    free(c);
    free(b);
    free(a);
}

TEST(count_sizes_beyond_40_bits) {
    static struct reading reading;
    reading_make(&reading, MALLOW_MODE_COUNT);
    reading_start(&reading, "more_than_there_is", getenv("TEST_NEXT_ALLOCATOR"));
    reading_finish(&reading);
    CHECK(reading.status == 0);
    CHECK_TEXT(counts_text(reading_only(&reading)),
               "malloc 2/2199023255551, calloc 1/3298534883328, realloc "
               "1/5497558138883, valloc 1/7, frees 3, realloc_frees 1, in_place 1");
}

TEST(trace_sizes_beyond_40_bits) {
    static struct reading reading;
    reading_make(&reading, MALLOW_MODE_TRACE);
    reading_start(&reading, "more_than_there_is", getenv("TEST_NEXT_ALLOCATOR"));
    reading_finish(&reading);
    CHECK(reading.status == 0);
    CHECK_TEXT(events_text(reading_only(&reading), 0), "a=malloc 1099511627775; b=malloc 1099511627776; begin a; "
                                                       "a=realloc 5497558138883; c=calloc "
                                                       "3298534883328; d=valloc 7; free c; free b; free a");
    /* Wide ones have a word of their own, and only they. */
    struct story story = story_of(&reading_only(&reading)->ring[0]);
    for (size_t i = 0; i < story.events; i++)
        CHECK(((story.event[i].flags & MALLOW_FLAG_WIDE_SIZE) != 0) == (story.event[i].size >= TERABYTE));
}

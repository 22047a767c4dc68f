/*
 * One test per entry point with a period of one byte, where all blocks but tiny ones are picked and live in slots.
 * CASE(name, what the file must show) { calls }
 */
#include "samples.h"
#include "test.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

static void check_samples(const char *scenario, const char *expected) {
    static struct reading reading;
    samples_make(&reading, 1);
    reading_start(&reading, scenario, NULL);
    reading_finish(&reading);
    CHECK(reading.status == 0);
    if (reading.images == 0) { /* nothing that it allocated */
        CHECK_TEXT("", expected);
        return;
    }
    const struct image *image = reading_only(&reading);
    CHECK_TEXT(samples_text(image), expected);
    const struct mallow_sampling *s = samples_of(image);
    CHECK(s->without_slot == 0 && s->without_stack == 0 && s->missed == 0);
    CHECK(s->begun == s->ended + samples_live(image) && s->exited == 1);
}

#define CASE(name, expected)                                                                                           \
    TEST(sample_##name) {                                                                                              \
        check_samples(#name, expected);                                                                                \
    }                                                                                                                  \
    SCENARIO(name)

/* Unknown to the compiler, which refuses such calls. */
static volatile size_t huge = SIZE_MAX / 2;

static int is_aligned(const void *block, size_t alignment) {
    return block != NULL && (uintptr_t)block % alignment == 0;
}

/* All of it can be written to, as far as the library says that it is the program's. */
static void use(void *block, size_t size) {
    CHECK(block != NULL && malloc_usable_size(block) >= size && malloc_usable_size(block) < size + 64);
    memset(block, 0xa5, malloc_usable_size(block));
}

static int holds(const char *block, char byte, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (block[i] != byte)
            return 0;
    return 1;
}

CASE(nothing, "") {}

CASE(malloc_and_free, "malloc 100 freed") {
    errno = 77;
    char *a = malloc(100);
    CHECK(is_aligned(a, 16));
    use(a, 100);
    free(a);
    CHECK(errno == 77);
}

SCENARIO(all_sizes) {
    for (size_t size = 50; size < 3ull << 30; size += size / 2 + 1) {
        char *a = malloc(size);
        CHECK(is_aligned(a, 16) && malloc_usable_size(a) >= size);
        a[0] = a[size - 1] = 1;
        free(a);
    }
}

/* The scenario is the check; so many blocks are no text. */
static const struct image *check_scenario(const char *scenario) {
    static struct reading reading;
    samples_make(&reading, 1);
    reading_start(&reading, scenario, NULL);
    reading_finish(&reading);
    CHECK(reading.status == 0);
    return reading_only(&reading);
}

TEST(sample_all_sizes) {
    const struct mallow_sampling *s = samples_of(check_scenario("all_sizes"));
    CHECK(s->begun > 40 && s->begun == s->ended && s->without_slot == 0);
}

CASE(a_block_that_lives, "[malloc 4096]") {
    use(malloc(4096), 4096);
}

CASE(malloc_zero, "") {
    void *a = malloc(0);
    CHECK(a != NULL);
    free(a);
}

CASE(malloc_fails, "") {
    errno = 0;
    CHECK(malloc(huge) == NULL && errno == ENOMEM);
}

CASE(free_null, "") {
    free(NULL);
}

/* What was not zero in a slot is made so, and what lies beyond it as well as before. */
SCENARIO(calloc_is_zeroed) {
    for (size_t size = 60; size < 8 << 20; size = size * 3 / 2) {
        char *a = malloc(size);
        use(a, size);
        free(a);
        char *b = calloc(2, size / 2), *c = calloc(1, size + 8);
        CHECK(holds(b, 0, size / 2 * 2) && holds(c, 0, size + 8));
        memset(b, 1, size / 2 * 2);
        free(b);
        free(c);
    }
}

TEST(sample_calloc_is_zeroed) {
    CHECK(samples_of(check_scenario("calloc_is_zeroed"))->begun > 60);
}

CASE(calloc_product, "calloc 210 freed") {
    free(calloc(3, 70));
}

CASE(calloc_overflows, "") {
    errno = 0;
    CHECK(calloc(huge, 3) == NULL && errno == ENOMEM);
}

CASE(realloc_of_null, "realloc 100 freed") {
    void *a = realloc(NULL, 100);
    use(a, 100);
    free(a);
}

CASE(realloc_in_place, "malloc 1000 reallocated; realloc 2000 reallocated; realloc 60 freed") {
    char *a = malloc(1000);
    memset(a, 7, 1000);
    char *b = realloc(a, 2000);
    CHECK(b == a && holds(b, 7, 1000));
    char *c = realloc(b, 60);
    CHECK(c == b && holds(c, 7, 60));
    use(c, 60);
    free(c);
}

CASE(realloc_moved,
     "malloc 4000 reallocated; realloc 5000 reallocated; realloc 5000000 reallocated; realloc 9000 freed") {
    char *a = malloc(4000);
    memset(a, 7, 4000);
    char *b = realloc(a, 5000);
    CHECK(b != a && holds(b, 7, 4000));
    char *c = realloc(b, 5000000);
    CHECK(holds(c, 7, 4000));
    use(c, 5000000);
    c[8999] = 9;
    c = realloc(c, 9000);
    CHECK(c[8999] == 9);
    free(c);
}

/* Too small to be picked, for once: it comes from the underlying allocator, or goes there. */
CASE(realloc_into_a_slot, "realloc 100000 freed") {
    char *a = malloc(0);
    a = realloc(a, 100000);
    use(a, 100000);
    free(a);
}

CASE(realloc_to_zero, "malloc 100 freed") {
    CHECK(realloc(malloc(100), 0) == NULL);
}

/* The underlying allocator gives a block, as several do; glibc's frees, and gives none. */
SCENARIO(realloc_to_zero_over_another) {
    char *a = malloc(100), *b = realloc(a, 0);
    CHECK(b != NULL && b != a);
    free(b);
}

TEST(sample_realloc_to_zero_is_what_the_underlying_allocator_does) {
    static struct reading reading;
    samples_make(&reading, 1);
    reading_start(&reading, "realloc_to_zero_over_another", getenv("TEST_NEXT_ALLOCATOR"));
    reading_finish(&reading);
    CHECK(reading.status == 0);
    CHECK_TEXT(samples_text(reading_only(&reading)), "malloc 100 reallocated");
}

CASE(realloc_fails, "malloc 100 freed") {
    char *a = malloc(100);
    strcpy(a, "kept");
    errno = 0;
    CHECK(realloc(a, huge) == NULL && errno == ENOMEM && strcmp(a, "kept") == 0);
    free(a);
}

CASE(reallocarray_moves, "malloc 100 reallocated; reallocarray 90000 freed") {
    char *a = malloc(100);
    strcpy(a, "kept");
    a = reallocarray(a, 300, 300);
    CHECK(strcmp(a, "kept") == 0);
    free(a);
}

CASE(reallocarray_overflows, "malloc 100 freed") {
    char *a = malloc(100);
    strcpy(a, "kept");
    errno = 0;
    CHECK(reallocarray(a, huge, 3) == NULL && errno == ENOMEM && strcmp(a, "kept") == 0);
    free(a);
}

CASE(aligned_alloc_aligns, "aligned_alloc 100 freed") {
    char *a = aligned_alloc(256, 100);
    CHECK(is_aligned(a, 256));
    use(a, 100);
    free(a);
}

CASE(memalign_aligns, "memalign 100 freed; memalign 70 freed; memalign 5000 freed") {
    void *a = memalign(1 << 21, 100), *b = memalign(8, 70), *c = memalign(1 << 16, 5000);
    CHECK(is_aligned(a, 1 << 21) && is_aligned(b, 16) && is_aligned(c, 1 << 16));
    use(a, 100);
    use(b, 70);
    use(c, 5000);
    free(a);
    free(b);
    free(c);
}

CASE(memalign_fails, "") {
    CHECK(memalign(1024, huge) == NULL);
}

CASE(posix_memalign_aligns, "posix_memalign 100 freed") {
    void *a = NULL;
    errno = 77;
    CHECK(posix_memalign(&a, 4096, 100) == 0 && is_aligned(a, 4096) && errno == 77);
    use(a, 100);
    free(a);
}

CASE(posix_memalign_fails, "") {
    void *a = &a;
    CHECK(posix_memalign(&a, 3, 50) == EINVAL && a == &a);
    CHECK(posix_memalign(&a, 24, 50) == EINVAL && a == &a);
    CHECK(posix_memalign(&a, 64, huge) == ENOMEM && a == &a);
}

CASE(valloc_aligns, "valloc 100 freed") {
    void *a = valloc(100);
    CHECK(is_aligned(a, 4096));
    use(a, 100);
    free(a);
}

/* Bytes are as requested, not as rounded up. */
CASE(pvalloc_aligns, "pvalloc 100 freed") {
    void *a = pvalloc(100);
    CHECK(is_aligned(a, 4096) && malloc_usable_size(a) >= 4096);
    memset(a, 1, 4096);
    free(a);
}

CASE(pvalloc_fails, "") {
    errno = 0;
    CHECK(pvalloc(SIZE_MAX - 5 + (huge & 1) - 1) == NULL && errno == ENOMEM);
}

/* Within the range of slots, and more than most machines have. */
SCENARIO(more_than_there_is) {
    size_t size = 200ull << 30;
    void *there = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (there != MAP_FAILED)
        munmap(there, size);
    void *block = malloc(size);
    CHECK((block != NULL) == (there != MAP_FAILED));
    free(block);
    free(malloc(100));
}

TEST(sample_more_than_there_is) {
    CHECK(samples_of(check_scenario("more_than_there_is"))->begun >= 1);
}

CASE(the_c_librarys_own_calls, "malloc 81 freed") {
    char *a = strdup("a string that is long enough to be picked almost surely, at a period of one byte");
    CHECK(strlen(a) == 80);
    free(a);
}

SCENARIO(freed_twice) {
    char *volatile a = malloc(100);
    free(a);
    free(a);
}

TEST(sample_freed_twice_is_an_end) {
    static struct reading reading;
    samples_make(&reading, 1);
    reading_start(&reading, "freed_twice", NULL);
    reading_finish(&reading);
    CHECK(WIFSIGNALED(reading.status) && WTERMSIG(reading.status) == SIGABRT);
    CHECK_TEXT(samples_text(reading_only(&reading)), "malloc 100 freed");
}

/* Code that finds glibc's own free, past the library: in a plugin opened with RTLD_DEEPBIND. */
extern void __libc_free(void *block);
extern void *__libc_realloc(void *block, size_t size);

CASE(freed_behind_the_librarys_back, "[malloc 100]; [malloc 300000]; [memalign 500]; [malloc 1000]") {
    char *a = malloc(100), *b = malloc(300000), *c = memalign(64, 500), *d = malloc(1000);
    strcpy(d, "kept");
    __libc_free(a);
    __libc_free(b);
    __libc_free(c);
    d = __libc_realloc(d, 70000);
    CHECK(strcmp(d, "kept") == 0);
    __libc_free(d);
}

/* build: -fno-builtin -Wno-use-after-free -Wno-deprecated-declarations */
/*
 * exact CASE ROUNDS: does CASE so many times and prints the truth, counted by what it did and what it was given.
 * The difference between a run of 0 rounds and one of N is what these calls alone must add to Mallow's counts.
 */
#include "target.h"
#include <malloc.h>

/* volatile: the compiler must neither know nor warn about impossible sizes. */
static volatile size_t huge = (size_t)PTRDIFF_MAX + 1, huge_half = (size_t)1 << 33;

static struct {
    const char *family;
    unsigned long long allocations, bytes, frees, realloc_frees, in_place, moved;
} truth;

static void *made(void *block, size_t bytes) {
    CHECK(block);
    truth.allocations++;
    truth.bytes += bytes;
    return keep(block);
}

static void released(void *block) {
    if (block)
        truth.frees++;
    free(block);
}

static void *resized(void *old, void *block, size_t bytes) {
    if (old) {
        truth.realloc_frees++;
        if (old == block)
            truth.in_place++;
        else
            truth.moved++;
    }
    return made(block, bytes);
}

static void do_malloc(size_t i) {
    released(made(malloc(i % 3000 + 1), i % 3000 + 1));
}
static void do_malloc_zero(size_t i) {
    (void)i;
    released(made(malloc(0), 0));
}
static void do_malloc_kept(size_t i) {
    made(malloc(i + 1), i + 1);
}
static void do_malloc_huge(size_t i) {
    errno = 0;
    CHECK(!malloc(huge + i) && errno == ENOMEM);
}
static void do_malloc_mapped(size_t i) {
    released(made(malloc((2u << 20) + i), (2u << 20) + i));
}
static void do_calloc(size_t i) {
    unsigned char *block = made(calloc(i % 50 + 1, 12), (i % 50 + 1) * 12);
    for (size_t k = 0; k < (i % 50 + 1) * 12; k++)
        CHECK(block[k] == 0);
    memset(block, 0xa5, (i % 50 + 1) * 12);
    released(block);
}
static void do_calloc_zero(size_t i) {
    released(made(calloc(0, i), 0));
    released(made(calloc(i, 0), 0));
}
static void do_calloc_overflow(size_t i) {
    errno = 0;
    CHECK(!calloc(huge_half + i, huge_half) && errno == ENOMEM);
}
static void do_realloc(size_t i) {
    size_t size = 16;
    char *block = resized(NULL, realloc(NULL, size), size);
    block[0] = 'x';
    for (size_t k = 0; k < 12; k++) {
        void *old = block;
        size = size * 2 + i % 7;
        block = resized(old, realloc(old, size), size);
        CHECK(block[0] == 'x');
    }
    while (size > 8) {
        void *old = block;
        size /= 3;
        if (size == 0)
            size = 1;
        block = resized(old, realloc(old, size), size);
        CHECK(block[0] == 'x');
    }
    released(block);
}
static void do_realloc_in_place(size_t i) {
    size_t size = 4000 + i % 64;
    char *block = resized(NULL, realloc(NULL, size), size);
    unsigned long long before = truth.in_place;
    block = resized(block, realloc(block, size - 1000), size - 1000);
    CHECK(truth.in_place == before + 1);
    released(block);
}
static void do_realloc_moved(size_t i) {
    size_t size = 100 + i % 16;
    char *block = made(malloc(size), size);
    /* Its neighbour is in use, so it cannot grow where it is. */
    char *neighbour = made(malloc(size), size);
    block = resized(block, realloc(block, 100000), 100000);
    released(neighbour);
    released(block);
}
static void do_realloc_mapped(size_t i) {
    size_t size = (1u << 20) + i * 4096;
    char *block = made(malloc(size), size);
    block[size - 1] = 'y';
    block = resized(block, realloc(block, size * 4), size * 4);
    CHECK(block[size - 1] == 'y');
    block = resized(block, realloc(block, 100), 100);
    released(block);
}
static void do_realloc_to_zero(size_t i) {
    char *block = made(malloc(i + 1), i + 1);
    CHECK(realloc(block, 0) == NULL);
    truth.realloc_frees++;
}
static void do_realloc_huge(size_t i) {
    char *block = made(malloc(64), 64);
    block[63] = 'z';
    errno = 0;
    CHECK(!realloc(block, huge + i) && errno == ENOMEM);
    CHECK(block[63] == 'z');
    released(block);
}
static void do_reallocarray(size_t i) {
    char *block = resized(NULL, reallocarray(NULL, i % 20 + 1, 8), (i % 20 + 1) * 8);
    block = resized(block, reallocarray(block, 1000, 17), 17000);
    block = resized(block, reallocarray(block, 3, 5), 15);
    released(block);
}
static void do_reallocarray_overflow(size_t i) {
    char *block = made(malloc(33), 33);
    errno = 0;
    CHECK(!reallocarray(block, huge_half + i, huge_half) && errno == ENOMEM);
    released(block);
}
static void do_reallocarray_to_zero(size_t i) {
    char *block = made(malloc(i + 1), i + 1);
    CHECK(reallocarray(block, 0, 8) == NULL);
    truth.realloc_frees++;
}
static void aligned(void *block, size_t alignment) {
    CHECK((uintptr_t)block % alignment == 0);
    released(block);
}
static void do_aligned_alloc(size_t i) {
    size_t alignment = (size_t)16 << i % 9;
    aligned(made(aligned_alloc(alignment, alignment * 2), alignment * 2), alignment);
}
static void do_memalign(size_t i) {
    size_t alignment = (size_t)8 << i % 10;
    aligned(made(memalign(alignment, i + 1), i + 1), alignment);
}
static void do_posix_memalign(size_t i) {
    size_t alignment = (size_t)8 << i % 10;
    void *block = NULL;
    CHECK(posix_memalign(&block, alignment, i + 1) == 0);
    aligned(made(block, i + 1), alignment);
}
static void do_posix_memalign_refused(size_t i) {
    void *block = &block;
    CHECK(posix_memalign(&block, 3, i + 1) == EINVAL && block == &block);
    CHECK(posix_memalign(&block, 64, huge) == ENOMEM && block == &block);
}
static void do_valloc(size_t i) {
    aligned(made(valloc(i + 1), i + 1), (size_t)getpagesize());
}
static void do_pvalloc(size_t i) {
    aligned(made(pvalloc(i + 1), i + 1), (size_t)getpagesize());
}
static void do_free_null(size_t i) {
    (void)i;
    free(keep(NULL));
}

static const struct {
    const char *name, *family;
    void (*run)(size_t);
} cases[] = {
    {"malloc", "malloc", do_malloc},
    {"malloc_zero", "malloc", do_malloc_zero},
    {"malloc_kept", "malloc", do_malloc_kept},
    {"malloc_huge", "malloc", do_malloc_huge},
    {"malloc_mapped", "malloc", do_malloc_mapped},
    {"calloc", "calloc", do_calloc},
    {"calloc_zero", "calloc", do_calloc_zero},
    {"calloc_overflow", "calloc", do_calloc_overflow},
    {"realloc", "realloc", do_realloc},
    {"realloc_in_place", "realloc", do_realloc_in_place},
    {"realloc_moved", NULL, do_realloc_moved},
    {"realloc_mapped", NULL, do_realloc_mapped},
    {"realloc_to_zero", "malloc", do_realloc_to_zero},
    {"realloc_huge", "malloc", do_realloc_huge},
    {"reallocarray", "reallocarray", do_reallocarray},
    {"reallocarray_overflow", "malloc", do_reallocarray_overflow},
    {"reallocarray_to_zero", "malloc", do_reallocarray_to_zero},
    {"aligned_alloc", "aligned_alloc", do_aligned_alloc},
    {"memalign", "memalign", do_memalign},
    {"posix_memalign", "posix_memalign", do_posix_memalign},
    {"posix_memalign_refused", "posix_memalign", do_posix_memalign_refused},
    {"valloc", "valloc", do_valloc},
    {"pvalloc", "pvalloc", do_pvalloc},
    {"free_null", "malloc", do_free_null},
};

int main(int count, char **arguments) {
    CHECK(count == 3);
    size_t rounds = (size_t)atol(arguments[2]);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        if (strcmp(cases[c].name, arguments[1]))
            continue;
        for (size_t i = 0; i < rounds; i++)
            cases[c].run(i);
        say("{\"family\":\"%s\",\"allocations\":%llu,\"allocated_bytes\":%llu,\"frees\":%llu,\"realloc_frees\":%llu,"
            "\"reallocs_in_place\":%llu,\"reallocs_moved\":%llu}\n",
            cases[c].family ? cases[c].family : "", truth.allocations, truth.bytes, truth.frees, truth.realloc_frees,
            truth.in_place, truth.moved);
        return 0;
    }
    say("no case %s\n", arguments[1]);
    return 99;
}

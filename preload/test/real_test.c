/* The arena for calls made while the underlying allocator is looked for, and what
 * becomes of its blocks. */
#include "base/real.h"
#include "test.h"

#include <dlfcn.h>
#include <errno.h>

struct allocator real;

static int is_aligned(const void *block, size_t alignment) {
    return block != NULL && (uintptr_t)block % alignment == 0;
}

TEST(blocks_are_aligned_and_apart) {
    char *last = NULL;
    for (size_t size = 0; size < 300; size += 7) {
        char *block = bootstrap.malloc(size);
        CHECK(is_aligned(block, 16));
        memset(block, 0x7f, size);
        CHECK(last == NULL || block >= last);
        last = block + size;
    }
}

TEST(alignments_up_to_a_cache_line_are_kept) {
    void *block;
    for (size_t alignment = 8; alignment <= 64; alignment *= 2) {
        CHECK(is_aligned(bootstrap.aligned_alloc(alignment, 3), alignment));
        CHECK(is_aligned(bootstrap.memalign(alignment, 3), alignment));
        CHECK(bootstrap.posix_memalign(&block, alignment, 3) == 0 && is_aligned(block, alignment));
    }
}

TEST(greater_alignments_are_refused) {
    void *block = &block;
    CHECK(bootstrap.aligned_alloc(128, 3) == NULL);
    CHECK(bootstrap.memalign(4096, 3) == NULL);
    CHECK(bootstrap.posix_memalign(&block, 128, 3) == ENOMEM && block == &block);
    CHECK(bootstrap.valloc(3) == NULL);
    CHECK(bootstrap.pvalloc(3) == NULL);
}

TEST(calloc_gives_zeros) {
    const char *block = bootstrap.calloc(30, 10);
    CHECK(block != NULL);
    for (int i = 0; i < 300; i++)
        CHECK(block[i] == 0);
}

TEST(sizes_that_overflow_are_refused) {
    CHECK(bootstrap.malloc(SIZE_MAX) == NULL);
    CHECK(bootstrap.malloc(SIZE_MAX - 63) == NULL);
    CHECK(bootstrap.malloc(SIZE_MAX - 127) == NULL);
    CHECK(bootstrap.calloc(SIZE_MAX / 2, 3) == NULL);
    CHECK(bootstrap.reallocarray(NULL, SIZE_MAX / 2, 3) == NULL);
    CHECK(bootstrap.malloc(10) != NULL);
}

TEST(the_arena_has_an_end) {
    unsigned count = 0;
    char *first = bootstrap.malloc(1000);
    memset(first, 1, 1000);
    for (char *block; (block = bootstrap.malloc(1000)) != NULL; count++) {
        CHECK(count < 10000);
        memset(block, 2, 1000);
    }
    CHECK(count >= 100);
    for (int i = 0; i < 1000; i++)
        CHECK(first[i] == 1);
    for (int i = 0; i < 1000; i++)
        CHECK(bootstrap.malloc(100000) == NULL);
    bootstrap.free(first);
    bootstrap.free(NULL);
}

TEST(realloc_copies_what_both_hold) {
    char *block = bootstrap.realloc(NULL, 5);
    CHECK(block != NULL);
    memcpy(block, "abcd", 5);
    char *larger = bootstrap.realloc(block, 5000);
    CHECK(larger != block && strcmp(larger, "abcd") == 0);
    char *smaller = bootstrap.reallocarray(larger, 1, 2);
    CHECK(memcmp(smaller, "ab", 3) == 0); /* the third byte is the arena's zero */
}

static void *libc_symbol(const char *name) {
    void *symbol = dlsym(RTLD_NEXT, name);
    CHECK(symbol != NULL);
    return symbol;
}

TEST(the_underlying_allocator_is_called_directly) {
    real_resolve(&real);
#define X(name, result, parameters, arguments) CHECK((void *)real.name == libc_symbol(#name));
    MALLOW_ENTRIES(X)
#undef X
}

TEST(blocks_of_the_arena_may_be_freed_later) {
    char *early = bootstrap.malloc(100);
    real_resolve(&real);
    real.free(early);
    real.free(NULL);
    char *block = real.malloc(100);
    CHECK(block != NULL);
    real.free(block);
    CHECK(real.malloc(100) == block); /* glibc gives the last freed block first: it was freed indeed */
}

TEST(blocks_of_the_arena_may_be_reallocated_later) {
    char *early = bootstrap.malloc(6);
    memcpy(early, "early", 6);
    char *neighbour = bootstrap.malloc(6);
    memcpy(neighbour, "other", 6);
    real_resolve(&real);
    char *larger = real.realloc(early, 64 << 20);
    CHECK(larger != NULL && strcmp(larger, "early") == 0);
    char *smaller = real.realloc(neighbour, 2);
    CHECK(smaller != NULL && memcmp(smaller, "ot", 2) == 0);
    larger = real.realloc(larger, 10);
    CHECK(strcmp(larger, "early") == 0);
    real.free(larger);
    real.free(smaller);
    larger = real.realloc(NULL, 10);
    CHECK(larger != NULL);
    real.free(larger);
}

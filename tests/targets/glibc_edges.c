/* build: -fno-builtin -Wno-deprecated-declarations -Wno-use-after-free */
/* What glibc's allocator answers at its edges: NULL, zero, overflow, odd alignments, errno, alignment, usable sizes.
 * Every answer is printed; under Mallow the text must be the same. */
#include "target.h"
#include <malloc.h>

static volatile size_t sizes[] = {0,
                                  1,
                                  7,
                                  8,
                                  15,
                                  16,
                                  24,
                                  25,
                                  1000,
                                  4096,
                                  100000,
                                  131072,
                                  1u << 20,
                                  1u << 25,
                                  SIZE_MAX,
                                  SIZE_MAX / 2,
                                  SIZE_MAX - 64,
                                  SIZE_MAX / 2 + 1,
                                  SIZE_MAX - 4096,
                                  (size_t)1 << 47,
                                  (size_t)1 << 62};
enum { SIZES = sizeof sizes / sizeof *sizes };
static volatile size_t alignments[] = {
    0, 1, 2, 3, 8, 16, 24, 32, 64, 100, 4096, 65536, (size_t)1 << 30, SIZE_MAX, SIZE_MAX / 2 + 1};
enum { ALIGNMENTS = sizeof alignments / sizeof *alignments };

static void answer(const char *call, size_t a, size_t b, void *block, size_t alignment) {
    int error = errno;
    if (block)
        CHECK((uintptr_t)block % alignment == 0);
    say("%s(%zx,%zx): %s errno %d\n", call, a, b, block ? "block" : "NULL", error);
    errno = 77;
    free(block);
    CHECK(errno == 77);
}

int main(void) {
    for (int s = 0; s < SIZES; s++) {
        size_t size = sizes[s];
#define ASK(call, a, b, alignment, expression)                                                                         \
    errno = 77;                                                                                                        \
    answer(call, a, b, expression, alignment)
        ASK("malloc", size, 0, 16, malloc(size));
        ASK("realloc NULL", size, 0, 16, realloc(NULL, size));
        ASK("valloc", size, 0, 4096, valloc(size));
        ASK("pvalloc", size, 0, 4096, pvalloc(size));
        for (int t = 0; t < SIZES; t++) {
            ASK("calloc", size, sizes[t], 16, calloc(size, sizes[t]));
            ASK("reallocarray NULL", size, sizes[t], 16, reallocarray(NULL, size, sizes[t]));
        }
        for (int a = 0; a < ALIGNMENTS; a++) {
            size_t alignment = alignments[a];
            size_t holds = alignment && !(alignment & (alignment - 1)) ? alignment : 16;
            ASK("aligned_alloc", alignment, size, holds, aligned_alloc(alignment, size));
            ASK("memalign", alignment, size, holds, memalign(alignment, size));
            void *block = (void *)0x123;
            errno = 77;
            int result = posix_memalign(&block, alignment, size);
            if (result) {
                CHECK(block == (void *)0x123);
                block = NULL;
            }
            say("posix_memalign %d: ", result);
            answer("posix", alignment, size, block, holds);
        }
        for (int t = 0; t < SIZES; t++) {
            if (size > (1u << 26))
                continue;
            char *block = malloc(size);
            if (size > 1)
                block[0] = 'k', block[size - 1] = 'l';
            errno = 77;
            char *other = realloc(block, sizes[t]);
            say("realloc %zx to %zx: %s errno %d\n", size, sizes[t], other ? "block" : "NULL", errno);
            if (other && size > 1 && sizes[t])
                CHECK(other[0] == 'k' && (sizes[t] < size || other[size - 1] == 'l'));
            if (other || sizes[t] == 0)
                free(other);
            else
                free(block);
        }
    }
    /* Twice the size for each step: every size keeps its alignment, and blocks do not overlap. */
    unsigned char *blocks[500];
    for (size_t i = 0; i < 500; i++) {
        blocks[i] = malloc(i);
        CHECK((uintptr_t)blocks[i] % 16 == 0);
        memset(blocks[i], (int)i, malloc_usable_size(blocks[i]));
    }
    for (size_t i = 0; i < 500; i++) {
        for (size_t k = 0; k < malloc_usable_size(blocks[i]); k++)
            CHECK(blocks[i][k] == (unsigned char)i);
        free(blocks[i]);
    }
    errno = 5;
    for (int i = 0; i < 1000; i++)
        free(keep(malloc((size_t)i * 997)));
    free(NULL);
    say("errno %d\n", errno);
    errno = 0;
    CHECK(malloc_usable_size(NULL) == 0);
    say("mallopt %d, trim %d\n", mallopt(M_MMAP_THRESHOLD, 100000), malloc_trim(0) >= 0);
    free(malloc(200000));
    struct mallinfo2 info = mallinfo2();
    CHECK(info.arena > 0);
    return 0;
}

/* Live blocks. `rss_blocks leak`: nothing is freed. `rss_blocks reserved`: huge blocks of which a page in 64 is touched.
   `rss_blocks sizes`: blocks of all sizes, so that rounding is large. `rss_blocks own`: the program maps memory of its own.
   `rss_blocks split`: blocks whose mappings madvise and mprotect split, as numpy does with arrays of 4 MiB and more.
   `rss_blocks static`: no live block, and a static array of which 30 MiB are touched. `rss_blocks small`: 4 MB in blocks
   of 1000 bytes, and 600 kB in blocks of 3 bytes, which take more. */
#include "rss_truth.h"

static char table[40 << 20];

__attribute__((noinline)) static char *leak(size_t size) {
    char *block = malloc(size);
    memset(block, 4, size);
    truth_note(block, size);
    return block;
}

__attribute__((noinline)) static void intern(size_t size) {
    char *block = malloc(size);
    memset(block, 7, size);
    truth_note(block, size);
}

__attribute__((noinline)) static void reserve(size_t size) {
    char *block = malloc(size);
    for (size_t at = 0; at < size; at += 64 * TRUTH_PAGE)
        block[at] = 5;
    truth_note(block, size);
}

/* Advises all whole pages of a block, and takes rights of some from it. */
__attribute__((noinline)) static void split(size_t size, int rights) {
    char *block = leak(size);
    uintptr_t first = ((uintptr_t)block + TRUTH_PAGE - 1) & ~(uintptr_t)(TRUTH_PAGE - 1);
    if (madvise((void *)first, size - TRUTH_PAGE, MADV_DONTDUMP) != 0 ||
        mprotect((char *)first + size / 2 / TRUTH_PAGE * TRUTH_PAGE, 16 * TRUTH_PAGE, rights) != 0)
        abort();
}

int main(int count, char **arguments) {
    const char *mode = count > 1 ? arguments[1] : "leak";
    truth_begin();
    if (strcmp(mode, "leak") == 0)
        for (int n = 0; n < 100000; n++)
            leak(200);
    if (strcmp(mode, "reserved") == 0)
        for (int n = 0; n < 20; n++)
            reserve(64 << 20);
    if (strcmp(mode, "sizes") == 0)
        for (size_t n = 0; n < 60000; n++)
            leak(1 + n * 7919 % 700);
    if (strcmp(mode, "own") == 0) {
        size_t size = 50 << 20;
        char *own = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (own == MAP_FAILED)
            return 1;
        memset(own, 6, size);
        leak(1000);
    }
    if (strcmp(mode, "split") == 0)
        for (int n = 0; n < 12; n++)
            split(5 << 20, n % 3 == 0 ? PROT_READ : n % 3 == 1 ? PROT_NONE : PROT_READ | PROT_WRITE);
    if (strcmp(mode, "small") == 0) {
        for (int n = 0; n < 4000; n++)
            leak(1000);
        for (int n = 0; n < 200000; n++)
            intern(3);
    }
    if (strcmp(mode, "static") == 0) {
        for (size_t n = 0; n < 100; n++)
            free(malloc(1000 * n));
        memset(table, count, 30 << 20);
    }
    truth_print();
    return 0;
}

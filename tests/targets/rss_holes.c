/* Holes by `rss_holes` half (every other block is freed, another function's), own (the same function's), survivors
   (one block in each page is left), burst (one that is freed leaves the heap's end: a block was made after it). */
#include "rss_truth.h"

enum { BLOCKS = 40000, SIZE = 1000 };

__attribute__((noinline)) static void *cache_entry(size_t size) {
    char *block = malloc(size);
    memset(block, 1, size);
    return block;
}

__attribute__((noinline)) static void *request(size_t size) {
    char *block = malloc(size);
    memset(block, 2, size);
    return block;
}

int main(int count, char **arguments) {
    const char *mode = count > 1 ? arguments[1] : "half";
    int step = strcmp(mode, "survivors") == 0 ? 4 : 2;
    static void *freed[BLOCKS];
    truth_begin();
    for (int n = 0; n < BLOCKS; n++) {
        if (strcmp(mode, "burst") != 0 && n % step == 0)
            truth_note(cache_entry(SIZE), SIZE);
        else
            freed[n] = strcmp(mode, "own") == 0 ? cache_entry(SIZE) : request(SIZE);
    }
    if (strcmp(mode, "burst") == 0)
        truth_note(cache_entry(100), 100);
    for (int n = 0; n < BLOCKS; n++)
        free(freed[n]);
    truth_print();
    return 0;
}

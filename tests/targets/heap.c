/*
 * heap MEGABYTES: holds so many in blocks of mixed small sizes, and says how much memory the process has.
 *
 * Blocks come and go until it is full, and large ones went before: what is left of those that went counts, too.
 */
#include "target.h"
#include <fcntl.h>
#include <time.h>

enum { LISTS = 64, LARGE = 64, SMALLEST = 16, SIZES = 640 };

static uint64_t dice = 1;

static uint32_t roll(uint32_t sides) {
    dice ^= dice << 13, dice ^= dice >> 7, dice ^= dice << 17;
    return (uint32_t)((dice >> 20) % sides);
}

static struct block {
    struct block *next;
    size_t size;
} * lists[LISTS];
static size_t held;

static void allocate(struct block **list) {
    size_t size = SMALLEST + roll(SIZES);
    struct block *block = malloc(size);
    CHECK(block);
    memset(block, 'x', size);
    *block = (struct block){*list, size};
    *list = block;
    held += size;
}

static void release(struct block **list) {
    struct block *block = *list;
    *list = block->next;
    held -= block->size;
    free(block);
}

static void step(int more) {
    struct block **list = &lists[roll(LISTS)];
    if (*list != NULL && (!more || roll(3) == 0))
        release(list);
    else
        allocate(list);
}

static void large_ones(void) {
    void *block[LARGE];
    for (int i = 0; i < LARGE; i++) {
        size_t size = (192u << 10) + roll(128u << 10);
        CHECK((block[i] = malloc(size)));
        memset(block[i], 'y', size);
    }
    for (int i = 0; i < LARGE; i++)
        free(block[i]);
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void say_memory(void) {
    char text[4096];
    int file = open("/proc/self/smaps_rollup", O_RDONLY);
    ssize_t length = read(file, text, sizeof text - 1);
    CHECK(length > 0);
    text[length] = '\0';
    const char *resident = strstr(text, "\nRss:"), *swapped = strstr(text, "\nSwap:");
    CHECK(resident && swapped);
    say("%ld\n", atol(resident + 5) + atol(swapped + 6));
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    size_t most = (size_t)atol(arguments[1]) << 20;
    large_ones();
    double gone = seconds();
    while (held < most)
        step(1);
    /* Memory that nobody needs is given back after a second, by a thread that comes by. */
    while (seconds() < gone + 2.5)
        for (int i = 0; i < 1000; i++)
            step(held < most);
    while (held < most)
        step(1);
    say_memory();
    return 0;
}

/*
 * Programs whose RSS a setting lowers, or does not. Prints its RSS in bytes when it has come to rest; what is live then lives to the end.
 *
 *   large     blocks of a megabyte, among small ones that stay, are freed after glibc's threshold has grown above their size
 *   small     blocks of a megabyte went back to the kernel; every other small block behind them is freed
 *   array     the only large block lives while small ones are made, and is freed with them
 *   grown     a buffer grows by realloc, a block of zeros is hardly touched, and both are freed: each had a mapping of its own
 *   fast      small blocks at the heap's end are freed, and wait in glibc's fast bins
 *   fast-high the same, after glibc's thresholds have grown
 *   top       blocks at the heap's end are freed after glibc's thresholds have grown
 *   stacks    threads whose stacks are locked in memory
 *   idle MS   most of 64 MB of small blocks are freed, and nothing happens until RSS is half of it, MS milliseconds at the most
 */
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MIB = 1 << 20, LARGE = 40, SMALL = 2000, BLOCK = 4000, MANY = 16384, FAST = 100, THREADS = 6 };

static char *large[LARGE], *small[MANY], *ends[6 * MANY];
static pthread_barrier_t all;

static char *filled(size_t size) {
    char *block = malloc(size);
    if (block == NULL)
        exit(1);
    memset(block, 1, size);
    return block;
}

/* Allocates nothing: a request of some kilobytes would empty the fast bins. */
static unsigned long resident(void) {
    char text[128] = "";
    unsigned long size = 0, pages = 0;
    int file = open("/proc/self/statm", O_RDONLY);
    if (file < 0 || read(file, text, sizeof(text) - 1) < 1 || sscanf(text, "%lu %lu", &size, &pages) != 2)
        exit(1);
    close(file);
    return pages * 4096;
}

static void fill_and_free_large(void) {
    for (int i = 0; i < LARGE; i++) {
        large[i] = filled(MIB + (size_t)i);
        small[i] = filled(SMALL);
    }
    for (int i = 0; i < LARGE; i++)
        free(large[i]);
}

static void grow_threshold(void) {
    free(filled(24 * MIB));
    fill_and_free_large();
}

static void holes_of_small_blocks(void) {
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
    fill_and_free_large();
    for (int i = 0; i < MANY / 4; i++)
        small[i] = filled(9 * SMALL);
    for (int i = 0; i < MANY / 4; i += 2)
        free(small[i]);
}

static void free_array_and_small_blocks(void) {
    char *array = filled(8 * MIB);
    for (int i = 0; i < 6 * MANY; i++)
        ends[i] = filled(2 * FAST);
    for (int i = 0; i + 1 < 6 * MANY; i++)
        free(ends[i]);
    free(array);
}

static void grow_and_clear(void) {
    char *buffer = NULL;
    for (size_t size = 16; size <= 32 * MIB; size *= 2) {
        buffer = realloc(buffer, size);
        if (buffer == NULL)
            exit(1);
        memset(buffer + size / 2, 1, size / 2);
    }
    char *volatile zeros = calloc(30, MIB);
    if (zeros == NULL)
        exit(1);
    zeros[5] = 1;
    free(zeros);
    free(buffer);
}

/* Blocks of fast bins do not join the end of the heap. */
static void free_at_the_end(size_t size) {
    for (int i = 0; i < 6 * MANY; i++)
        ends[i] = filled(size);
    for (int i = 1; i < 6 * MANY; i++)
        free(ends[i]);
}

static void *wait_for_all(void *unused) {
    pthread_barrier_wait(&all);
    for (;;)
        pause();
    return unused;
}

static void lock_stacks(void) {
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
        printf("no right to lock memory\n");
        exit(0);
    }
    pthread_barrier_init(&all, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, wait_for_all, NULL) != 0)
            exit(1);
    }
    pthread_barrier_wait(&all);
}

static void be_idle(int ms) {
    for (int i = 0; i < MANY; i++)
        small[i] = filled(BLOCK);
    unsigned long most = resident();
    for (int i = 0; i < MANY; i++)
        if (i % 1024 != 0)
            free(small[i]);
    for (int waited = 0; waited < ms && resident() > most / 2; waited += 100)
        usleep(100000);
}

int main(int count, char **arguments) {
    const char *mode = count > 1 ? arguments[1] : "";
    static char buffer[256];
    setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
    if (strcmp(mode, "large") == 0)
        grow_threshold();
    else if (strcmp(mode, "small") == 0)
        holes_of_small_blocks();
    else if (strcmp(mode, "array") == 0)
        free_array_and_small_blocks();
    else if (strcmp(mode, "grown") == 0)
        grow_and_clear();
    else if (strcmp(mode, "fast") == 0)
        free_at_the_end(FAST);
    else if (strcmp(mode, "fast-high") == 0)
        free(filled(24 * MIB)), free_at_the_end(FAST);
    else if (strcmp(mode, "top") == 0)
        free(filled(24 * MIB)), free_at_the_end(2 * FAST);
    else if (strcmp(mode, "stacks") == 0)
        lock_stacks();
    else if (strcmp(mode, "idle") == 0)
        be_idle(count > 2 ? atoi(arguments[2]) : 0);
    printf("%lu\n", resident());
    fflush(stdout);
    /* A pause: memory is read while all of it is there. */
    usleep(300000);
    return 0;
}

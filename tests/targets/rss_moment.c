/*
 * When RSS is highest: for an instant, until the last frees of the program, long after most was freed, when it is killed, and in a child that
 * copies what it shared.
 * Prints, where it ends by itself, the highest RSS as the kernel counts it for the process, in KiB.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20, BLOCK = 64 << 10, BLOCKS = 1024 };

static char *keep[BLOCKS + 1];

static void *filled(size_t size) {
    char *block = malloc(size);
    if (block == NULL)
        exit(1);
    memset(block, 1, size);
    return block;
}

static void rest(int ms) {
    usleep(1000 * (useconds_t)ms);
}

static void print_peak(void) {
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (status != NULL && fgets(line, sizeof line, status) != NULL)
        if (strncmp(line, "VmHWM:", 6) == 0)
            printf("%ld\n", strtol(line + 6, NULL, 10));
    fflush(stdout);
}

/* 96 MB, and at once none of it. */
static void spike(void) {
    rest(100);
    free(filled(96 * MIB));
    rest(100);
    print_peak();
}

/* 64 MB are live until the program ends, in the heap, below a block that stays; and the end itself needs some more. */
static void tear_down(void) {
    for (int i = 0; i < BLOCKS; i++)
        free(keep[i]);
}

static void live_to_the_end(void) {
    for (int i = 0; i <= BLOCKS; i++)
        keep[i] = filled(BLOCK);
    rest(1000);
    tear_down();
    keep[0] = filled(6 * MIB);
    print_peak();
}

/* The same, and the end comes long after. */
static void kept_when_freed(void) {
    for (int i = 0; i <= BLOCKS; i++)
        keep[i] = filled(BLOCK);
    rest(300);
    tear_down();
    rest(1500);
}

/* Freed in an instant, and idle from then on; no exit handler runs. */
static void freed_before_leaving(void) {
    for (int i = 0; i <= BLOCKS; i++)
        keep[i] = filled(BLOCK);
    rest(300);
    tear_down();
    rest(1500);
    _exit(0);
}

/* Twice as much as ever before, in the last moment. */
static void grow_and_end(void (*end)(void)) {
    keep[0] = filled(32 * MIB);
    rest(300);
    keep[1] = filled(64 * MIB);
    end();
}

static void be_killed(void) {
    kill(getpid(), SIGKILL);
}

static void leave(void) {
    _exit(3);
}

/* The child shares 48 MB, and then writes them. */
static void copy(void) {
    char *block = filled(48 * MIB);
    pid_t child = fork();
    if (child == 0) {
        free(malloc(1));
        rest(700);
        memset(block, 2, 48 * MIB);
        rest(1500);
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

/* A buffer that doubles up to 32 MB, again and again: each block is copied into the next one, and unmapped. It ends in the middle. */
static void doubling(void) {
    for (int round = 0; round < 16; round++) {
        char *block = filled(MIB);
        for (size_t size = 2 * MIB; size <= 32 * MIB; size *= 2) {
            char *next = filled(size);
            memcpy(next, block, size / 2);
            free(block);
            block = next;
        }
        if (round == 15)
            _exit(0);
        free(block);
    }
}

/* Lives for long enough to be looked at, is smaller than mallow, and leaves without its exit handlers. */
static void small(void) {
    keep[0] = filled(BLOCK);
    rest(1000);
    _exit(0);
}

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "";
    if (strcmp(what, "spike") == 0)
        spike();
    else if (strcmp(what, "teardown") == 0)
        live_to_the_end();
    else if (strcmp(what, "kept") == 0)
        kept_when_freed();
    else if (strcmp(what, "freed") == 0)
        freed_before_leaving();
    else if (strcmp(what, "killed") == 0)
        grow_and_end(be_killed);
    else if (strcmp(what, "_exit") == 0)
        grow_and_end(leave);
    else if (strcmp(what, "small") == 0)
        small();
    else if (strcmp(what, "copy") == 0)
        copy();
    else if (strcmp(what, "doubling") == 0)
        doubling();
    return 0;
}

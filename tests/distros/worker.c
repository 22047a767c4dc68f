/*
 * worker work: keeps, drops and loses blocks in functions of these names. worker wait: the same between two bytes of
 * input. worker overflow: writes behind a block. Nothing else allocates, but for the C library's own start.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAMED __attribute__((noinline, noclone))

/* ways.py has the same numbers. */
enum { KEPT = 2000, KEPT_BYTES = 4000, DROPPED = 500, DROPPED_BYTES = 100, LOST_BYTES = 5000 };

static char *volatile kept[KEPT];

static char *filled(char *block, size_t bytes) {
    if (!block)
        abort();
    return memset(block, 1, bytes);
}

static NAMED void keep_rows(void) {
    for (int i = 0; i < KEPT; i++)
        kept[i] = filled(malloc(KEPT_BYTES), KEPT_BYTES);
}

static NAMED void drop_rows(void) {
    for (int i = 0; i < DROPPED; i++) {
        char *volatile row = filled(malloc(DROPPED_BYTES), DROPPED_BYTES);
        free(row);
    }
}

static NAMED void lose_block(void) {
    char *volatile block = filled(malloc(LOST_BYTES), LOST_BYTES);
    block = NULL;
    (void)block;
}

static NAMED void overflow(void) {
    char *volatile block = filled(malloc(16), 16);
    block[16] = 2;
    free(block);
}

static void work(void) {
    keep_rows();
    drop_rows();
    lose_block();
}

static void say(const char *text) {
    if (write(1, text, strlen(text)) < 0)
        abort();
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "work";
    char byte;
    if (strcmp(mode, "overflow") == 0) {
        overflow();
    } else if (strcmp(mode, "wait") == 0) {
        say("ready\n");
        if (read(0, &byte, 1) != 1)
            return 1;
        work();
        say("done\n");
        return read(0, &byte, 1) < 0;
    } else {
        work();
    }
    return 0;
}

/*
 * A server that is guarded while it runs. Each line of standard input is a request, which allocates 4 MiB in small blocks and is
 * answered by a line; `u` is one with a use after free.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

volatile char sink;

__attribute__((noinline)) static void culprit_read(volatile char *block) {
    sink = *block;
}

__attribute__((noinline)) static void work(void) {
    for (int i = 0; i < 4096; i++) {
        char *volatile block = calloc(1, 1024);
        for (int at = 0; at < 1024; at++)
            if (block[at] != 0)
                abort();
        memset(block, i, 1024);
        free(block);
    }
}

int main(void) {
    char line[64];
    setvbuf(stdout, NULL, _IONBF, 0);
    puts("ready");
    while (fgets(line, sizeof line, stdin) != NULL) {
        work();
        /* More than once: a slot may not be ready. */
        for (int i = 0; line[0] == 'u' && i < 20; i++) {
            char *volatile block = malloc(5000);
            free(block);
            culprit_read(block);
        }
        puts("answered");
    }
    return 0;
}

/* A plugin: built several times with another PADDING, so that the same addresses hold other code in each. */
#include <stdlib.h>
#include <string.h>

void plugin_work(int depth);

__attribute__((noinline)) static void inner(char *text, int depth) {
    char local[PADDING];
    memset(local, depth, sizeof local);
    free(malloc(strlen(text) + (size_t)local[0]));
    if (depth > 0)
        inner(text, depth - 1);
    __asm__ volatile("" : : "r"(local) : "memory");
}

void plugin_work(int depth) {
    char *text = calloc(1, PADDING);
    inner(text, depth);
    free(text);
}

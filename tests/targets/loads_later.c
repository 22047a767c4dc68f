/* build: -ldl */
/*
 * loads_later LIBRARY deep|flat: waits for a line of input, loads the library of library_inside.c with -DINSIDE, prints "loaded", waits again,
 * allocates by it and by itself, and prints how often; unloads the library for another line, and prints "unloaded".
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *volatile sink;

static int line(void) {
    char c;
    return read(0, &c, 1) == 1;
}

int main(int count, char **arguments) {
    setbuf(stdout, NULL);
    if (count != 3)
        return 2;
    puts("ready");
    while (line()) {
        void *library = dlopen(arguments[1], RTLD_NOW | (strcmp(arguments[2], "deep") == 0 ? RTLD_DEEPBIND : 0));
        if (library == NULL) {
            puts(dlerror());
            return 1;
        }
        void *(*take)(size_t) = (void *(*)(size_t))dlsym(library, "take");
        void (*give)(void *) = (void (*)(void *))dlsym(library, "give");
        puts("loaded");
        line();
        for (size_t i = 1; i <= 300; i++) {
            sink = take(i);
            memset(sink, 1, i);
            give(sink);
            sink = malloc(2 * i);
            free(sink);
        }
        puts("600 600");
        line();
        dlclose(library);
        puts("unloaded");
    }
    return 0;
}

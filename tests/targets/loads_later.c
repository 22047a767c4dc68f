/* build: -ldl */
/*
 * loads_later LIBRARY deep|flat: waits for a line of input, loads the library of library_inside.c with -DINSIDE, prints "loaded", waits again,
 * allocates by it and by itself, and prints how often; unloads the library for another line, and prints "unloaded".
 */
#include "target.h"
#include <dlfcn.h>

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
            give(memset(keep(take(i)), 1, i));
            free(keep(malloc(2 * i)));
        }
        puts("600 600");
        line();
        dlclose(library);
        puts("unloaded");
    }
    return 0;
}

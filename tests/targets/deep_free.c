/* Blocks that a plugin frees, opened with RTLD_DEEPBIND, beside some that are lost: deep_free PLUGIN */
#include "target.h"
#include <dlfcn.h>

#define OUT __attribute__((noinline, noclone))

enum { COUNT = 40, SIZES = 5 };
static const size_t sizes[SIZES] = {16, 24, 100, 1000, 5000};

/* Hidden from a look at memory by the complement. */
static uintptr_t hidden[SIZES][COUNT];

OUT static void *freed_by_plugin(size_t size) {
    return keep(memset(malloc(size), 7, size));
}

OUT static void *lost_between(size_t size) {
    return keep(memset(malloc(size), 9, size));
}

OUT static void *lost_unwritten(void) {
    return keep(malloc(16));
}

OUT static void *kept_between(size_t size) {
    return keep(memset(malloc(size), 3, size));
}

void *kept[SIZES][COUNT];

OUT static void clobber(void) {
    volatile char stack[16384];
    memset((void *)stack, 0, sizeof stack);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    void *plugin = dlopen(argv[1], RTLD_LAZY | RTLD_DEEPBIND);
    CHECK(plugin);
    void (*deep_free)(void *) = (void (*)(void *))dlsym(plugin, "deep_free");
    CHECK(deep_free);
    for (int s = 0; s < SIZES; s++) {
        for (int i = 0; i < COUNT; i++) {
            hidden[s][i] = ~(uintptr_t)freed_by_plugin(sizes[s]);
            if (i % 4 == 0)
                lost_between(sizes[s]);
            if (i % 4 == 2)
                kept[s][i] = kept_between(sizes[s]);
        }
    }
    for (int s = 0; s < SIZES; s++)
        for (int i = 0; i < COUNT; i++)
            deep_free((void *)~hidden[s][i]);
    /* glibc merges small free chunks when a large one is freed. */
    free(keep(malloc(100000)));
    /* A block that was free, and is not written to. */
    lost_unwritten();
    CHECK(dlclose(plugin) == 0);
    clobber();
    return 0;
}

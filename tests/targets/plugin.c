/* build: -shared -fPIC -DNAME=a */
/* One plugin of several that are loaded at the same address, one after the other: same layout, other functions. */
#include "target.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)
#define TEXT_(a)    #a
#define TEXT(a)     TEXT_(a)

static char *kept;

__attribute__((noipa)) static char *JOIN(inner_, NAME)(size_t size) {
    char *block = malloc(size);
    memset(block, TEXT(NAME)[0], size);
    return block;
}
__attribute__((constructor)) static void loaded(void) {
    kept = malloc(100);
}
__attribute__((destructor)) static void unloaded(void) {
    free(kept);
}
/* The same name in all: the caller frees. */
__attribute__((noinline)) char *plugin_work(size_t size) {
    churn(20, (unsigned)size);
    char *block = JOIN(inner_, NAME)(size);
    return realloc(block, size * 2);
}

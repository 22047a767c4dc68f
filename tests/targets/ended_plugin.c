/* A library whose thread-local storage is the loader's own block: blocks that only it points to are lost with the thread. */
#include "target.h"

struct lost {
    void *next;
    char data[992];
};

static _Thread_local struct lost *volatile list;
static _Thread_local char large[5000];

__attribute__((noinline, noclone)) static struct lost *lost_in_plugin(void) {
    return keep(calloc(1, sizeof(struct lost)));
}

size_t plugin_fill(void) {
    for (int i = 0; i < 20; i++) {
        struct lost *block = lost_in_plugin();
        block->next = list;
        list = block;
        large[i] = 1;
    }
    return sizeof large;
}

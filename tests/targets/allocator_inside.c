/* Functions with the names of allocators that are linked into programs, beside the C library's. Prints "ready" and waits. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define INSIDE __attribute__((noinline, used, visibility("default")))

INSIDE void *_rjem_malloc(size_t size) {
    return malloc(size + 1);
}

INSIDE void _rjem_sdallocx(void *block, size_t size, int flags) {
    if (size > (size_t)flags) {
        free(block);
    }
}

INSIDE void *mi_heap_malloc(void *heap, size_t size) {
    return heap ? malloc(size) : NULL;
}

/* Too short for a jump, with the next function behind it. */
__asm__(".globl tc_free\n.type tc_free, @function\n.globl tc_new\n.type tc_new, @function\n"
        "tc_free: ret\n.size tc_free, 1\n"
        "tc_new: call malloc@PLT\n ret\n.size tc_new, .-tc_new\n");

int main(void) {
    char *block = _rjem_malloc(10);
    _rjem_sdallocx(block, 10, 0);
    free(mi_heap_malloc(stdout, 10));
    puts("ready");
    fflush(stdout);
    pause();
    return 0;
}

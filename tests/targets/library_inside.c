/* build: -fno-builtin */
/*
 * With INSIDE, a library with an allocator inside that it hides; without, a program that uses it, and the C library's malloc as
 * well. Prints allocations and frees of both.
 */
#include "target.h"

void *take(size_t size);
void give(void *block);

#ifdef INSIDE

__attribute__((visibility("default"))) void *take(size_t size) {
    return malloc(size);
}

__attribute__((visibility("default"))) void give(void *block) {
    free(block);
}

#else

int main(void) {
    for (size_t i = 1; i <= 300; i++) {
        void *theirs = take(i), *ours = keep(malloc(2 * i));
        memset(theirs, 1, i);
        give(theirs);
        free(ours);
    }
    say("%d allocations %d frees\n", 600, 600);
    return 0;
}

#endif

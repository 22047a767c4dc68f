/* build: -fno-builtin */
/* A library whose constructor allocates, before main, with the allocator inside of the program; its destructor frees. */
#include <stdlib.h>

#ifdef LIBRARY
enum { EARLY = 100 };
static void *kept[EARLY];

__attribute__((constructor)) static void allocate_early(void) {
    for (int i = 0; i < EARLY; i++)
        kept[i] = malloc(1000);
}

__attribute__((destructor)) static void free_late(void) {
    for (int i = 0; i < EARLY; i++)
        free(kept[i]);
}

void touch(void) {}
#else
void touch(void);

int main(void) {
    touch();
    for (int i = 0; i < 10; i++) {
        void *volatile block = malloc(500);
        free(block);
    }
    return 0;
}
#endif

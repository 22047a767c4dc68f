/* A library with so much thread-local storage of the kind that must be there at the start of a program that little room is left for
 * another one. */
#include <stdlib.h>

static __attribute__((tls_model("initial-exec"))) _Thread_local volatile char hog[1660];

void *take(size_t size) {
    hog[size % sizeof hog] = 1;
    return malloc(size);
}

void give(void *block) {
    free(block);
}

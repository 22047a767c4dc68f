// Functions in the shape of a Swift program's. The test gives them the names that swiftc mangled, local ones as in a release
// build: what Swift's library does for the program is code of the program's own file.

#include <stdlib.h>

#define FUNCTION static __attribute__((noinline))

static void *volatile kept;

FUNCTION void *allocate_object(size_t size) {
    void *block = malloc(size);
    kept = block;
    return block;
}

FUNCTION void *create_new_buffer(size_t size) {
    void *block = allocate_object(size);
    kept = block;
    return block;
}

FUNCTION void grow(int count) {
    for (int i = 0; i < count; i++) {
        free(create_new_buffer(64));
        kept = NULL;
    }
}

FUNCTION void outlined_copy(void) {
    free(create_new_buffer(32));
    kept = NULL;
}

FUNCTION void closure(int count) {
    for (int i = 0; i < count; i++)
        outlined_copy();
    kept = NULL;
}

FUNCTION void thunk(int count) {
    closure(count);
    kept = NULL;
}

FUNCTION void serve(int more) {
    grow(100 + 1000 * more);
    thunk(100);
    kept = NULL;
}

int main(int argc, char **argv) {
    (void)argv;
    serve(argc - 1);
    return 0;
}

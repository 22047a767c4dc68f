/*
 * Code at a fixed address that takes the addresses of malloc and free: the executable's own symbols of these names have addresses then, of
 * calls that go on to whoever comes first. Allocates and frees so many blocks of 100 bytes through them.
 */
#include <stdlib.h>
#include <string.h>

static void *(*volatile take)(size_t);
static void (*volatile give)(void *);

int main(int count, char **arguments) {
    int rounds = count > 1 ? atoi(arguments[1]) : 0;
    take = malloc;
    give = free;
    for (int n = 0; n < rounds; n++) {
        char *block = take(100);
        if (block == NULL)
            return 1;
        memset(block, 1, 100);
        give(block);
    }
    return 0;
}

/* `lines N M` allocates N blocks on one line of a function, and M on another one of it. */
#include <stdlib.h>

#define APART __attribute__((noinline, noclone))

static void *volatile kept;

static APART void parse(long names, long values) {
    for (long i = 0; i < names; i++)
        kept = malloc(64);
    for (long i = 0; i < values; i++)
        kept = malloc(64);
}

int main(int count, char **arguments) {
    if (count == 3)
        parse(atol(arguments[1]), atol(arguments[2]));
    return count != 3;
}

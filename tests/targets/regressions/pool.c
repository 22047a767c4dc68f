// A parser that requests each of its records. With -DPOOLED a helper, which the other build does not have, requests chunks for them.
#include <stdlib.h>

enum { RECORDS = 1000, CHUNK = 5, SIZE = 200 };

static void *volatile kept[RECORDS];

#ifdef POOLED
__attribute__((noinline)) static void *request_chunk(void) {
    void *volatile chunk = malloc((size_t)CHUNK * SIZE);
    // Not a jump to malloc, which would leave no frame.
    return chunk;
}

__attribute__((noinline)) static void parse_records(void) {
    for (int at = 0; at < RECORDS; at += CHUNK) {
        kept[at] = request_chunk();
    }
}
#else
__attribute__((noinline)) static void parse_records(void) {
    for (int at = 0; at < RECORDS; at++) {
        kept[at] = malloc(SIZE);
    }
}
#endif

int main(void) {
    parse_records();
    return 0;
}

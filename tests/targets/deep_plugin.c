/* A library that frees what its host allocated. Opened with RTLD_DEEPBIND, it calls the C library's own free. */
#include <stdlib.h>

void deep_free(void *block);
void deep_free(void *block) {
    free(block);
}

/* The least that a preloaded library with an initialisation check can do: ask whether it is ready, and call on. */
#include "next.h"

EXPORT void *malloc(size_t size) {
    return not_ready() ? early_block(size) : next_malloc(size);
}

EXPORT void *calloc(size_t count, size_t size) {
    return not_ready() ? early_block(count * size) : next_calloc(count, size);
}

EXPORT void *realloc(void *block, size_t size) {
    return not_ready() ? early_block(size) : next_realloc(block, size);
}

EXPORT void free(void *block) {
    if (not_ready() || is_early(block))
        return;
    next_free(block);
}

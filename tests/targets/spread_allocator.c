/* A part of an allocator: the first defines malloc, calloc, realloc and free, the second what takes an alignment. Both
 * ask the C library. */
#include <stddef.h>

#if PART == 1
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void __libc_free(void *);

void *malloc(size_t size) {
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    return __libc_calloc(count, size);
}

void *realloc(void *block, size_t size) {
    return __libc_realloc(block, size);
}

void free(void *block) {
    __libc_free(block);
}
#else
extern void *__libc_memalign(size_t, size_t);

void *memalign(size_t alignment, size_t size) {
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    return __libc_memalign(alignment, size);
}
#endif

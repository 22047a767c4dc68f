/* build: -shared -fPIC */
/*
 * An allocator that may be entered at any moment, by handlers too, as safe_allocator.c, but that takes freed blocks again: a program
 * can storm for as long as it likes. Cells of one size in a list without locks; what is larger than a cell is never freed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <string.h>

enum { CELL = 1024, CELLS = 1 << 15, LARGE = 1 << 26 };
static _Alignas(CELL) char cells[CELLS][CELL];
static _Alignas(64) char large[LARGE];
static uint32_t next_of[CELLS];
/* The first free cell's number + 1, and above it how often the list changed. */
static uint64_t list;
static uint64_t cells_used, large_used;

static inline __attribute__((always_inline)) void *take(size_t size, size_t alignment) {
    if (size > CELL || alignment > CELL) {
        uint64_t bytes = (size + alignment + 63) & ~63ull;
        uint64_t at = bytes < size ? LARGE : __atomic_fetch_add(&large_used, bytes, __ATOMIC_RELAXED);
        if (at > LARGE || bytes > LARGE - at) {
            errno = ENOMEM;
            return NULL;
        }
        return (void *)(((uintptr_t)large + at + alignment - 1) & ~(alignment - 1));
    }
    uint64_t before = __atomic_load_n(&list, __ATOMIC_ACQUIRE);
    while ((uint32_t)before != 0) {
        uint64_t after = ((before >> 32) + 1) << 32 | __atomic_load_n(&next_of[(uint32_t)before - 1], __ATOMIC_RELAXED);
        if (__atomic_compare_exchange_n(&list, &before, after, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return cells[(uint32_t)before - 1];
    }
    uint64_t at = __atomic_fetch_add(&cells_used, 1, __ATOMIC_RELAXED);
    if (at < CELLS)
        return cells[at];
    errno = ENOMEM;
    return NULL;
}

static inline __attribute__((always_inline)) size_t usable(const void *block) {
    uintptr_t offset = (uintptr_t)block - (uintptr_t)cells;
    return offset < sizeof cells ? CELL : 0;
}

void *malloc(size_t size) {
    return take(size, 16);
}

void free(void *block) {
    if (usable(block) == 0)
        return;
    uint32_t number = (uint32_t)(((uintptr_t)block - (uintptr_t)cells) / CELL);
    uint64_t before = __atomic_load_n(&list, __ATOMIC_ACQUIRE), after;
    do {
        __atomic_store_n(&next_of[number], (uint32_t)before, __ATOMIC_RELAXED);
        after = ((before >> 32) + 1) << 32 | (number + 1);
    } while (!__atomic_compare_exchange_n(&list, &before, after, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
}

void *calloc(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return NULL;
    char *block = take(bytes, 16);
    for (size_t i = 0; block != NULL && i < bytes; i++)
        ((volatile char *)block)[i] = 0;
    return block;
}

/* Within a cell it stays where it is. */
void *realloc(void *block, size_t size) {
    if (block != NULL && size <= usable(block))
        return block;
    char *larger = take(size, 16);
    for (size_t i = 0; larger != NULL && block != NULL && i < usable(block) && i < size; i++)
        ((volatile char *)larger)[i] = ((char *)block)[i];
    return larger;
}

void *memalign(size_t alignment, size_t size) {
    return take(size, alignment);
}

void *aligned_alloc(size_t alignment, size_t size) {
    return take(size, alignment);
}

int posix_memalign(void **result, size_t alignment, size_t size) {
    *result = take(size, alignment);
    return *result != NULL ? 0 : ENOMEM;
}

size_t malloc_usable_size(void *block) {
    return usable(block);
}

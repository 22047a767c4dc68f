/* build: -shared -fPIC */
/*
 * An allocator that may be entered at any moment, by handlers too: one atomic addition takes fresh memory, free does
 * nothing. A target linked with it may allocate in handlers of asynchronous signals, which glibc's does not allow.
 * Where such a target fails under Mallow, it is Mallow's code that was interrupted at a bad moment.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { HEADER = 16 };
static const uintptr_t room = (uintptr_t)64 << 30;
static uintptr_t base, used;

static void *take(size_t alignment, size_t size) {
    uintptr_t start = __atomic_load_n(&base, __ATOMIC_ACQUIRE);
    if (!start) {
        void *map = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (map == MAP_FAILED)
            return NULL;
        if (__atomic_compare_exchange_n(&base, &start, (uintptr_t)map, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            start = (uintptr_t)map;
        else
            munmap(map, room);
    }
    if (alignment < HEADER)
        alignment = HEADER;
    size_t step = (size + HEADER + 2 * alignment - 1) / alignment * alignment;
    if (size > room || step < size) {
        errno = ENOMEM;
        return NULL;
    }
    uintptr_t at = __atomic_fetch_add(&used, step, __ATOMIC_RELAXED);
    if (at + step > room) {
        errno = ENOMEM;
        return NULL;
    }
    uintptr_t block = (start + at + HEADER + alignment - 1) / alignment * alignment;
    ((size_t *)block)[-1] = size;
    return (void *)block;
}

void *malloc(size_t size) {
    return take(HEADER, size);
}
void *calloc(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return take(HEADER, bytes);
}
void *realloc(void *old, size_t size) {
    if (!old)
        return take(HEADER, size);
    if (!size)
        return NULL;
    size_t before = ((size_t *)old)[-1];
    void *block = take(HEADER, size);
    if (block)
        memcpy(block, old, before < size ? before : size);
    return block;
}
void *reallocarray(void *old, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(old, bytes);
}
void *aligned_alloc(size_t alignment, size_t size) {
    return take(alignment, size);
}
void *memalign(size_t alignment, size_t size) {
    return take(alignment, size);
}
int posix_memalign(void **place, size_t alignment, size_t size) {
    void *block = take(alignment, size);
    if (!block)
        return ENOMEM;
    *place = block;
    return 0;
}
void *valloc(size_t size) {
    return take(4096, size);
}
void *pvalloc(size_t size) {
    return take(4096, (size + 4095) & ~(size_t)4095);
}
void free(void *block) {
    (void)block;
}
size_t malloc_usable_size(void *block) {
    return block ? ((size_t *)block)[-1] : 0;
}

/*
 * The underlying allocator is the next definition of each function after ours in the dynamic linker's search order:
 * the C library's, or that of an allocator library that the program uses.
 *
 * dlsym may allocate (glibc before 2.34 does, and so may a program's own). Those calls are served from a small arena,
 * which begins anew whenever all its blocks are free; where some outlive it, free and realloc look for them first.
 */
#include "base/real.h"
#include "base/musl.h"
#include "base/sys.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

/* Where free and realloc lead once the arena was used. */
static struct allocator underlying;

/* Mapped when it is needed, which with most C libraries it never is. */
#define ARENA (256ul * 1024)
static char *arena;
static size_t arena_used, arena_live;

#define HEADER 64u /* keeps blocks aligned to a cache line and holds the size */

static int in_arena(const void *block) {
    return arena != NULL && (uintptr_t)block - (uintptr_t)arena < ARENA;
}

int real_lent(const void *block) {
    return in_arena(block);
}

/* One thread alone takes blocks: the one that looks for the real allocator. Others may free them later. */
static void *arena_take(size_t size) {
    if (arena == NULL)
        arena = sys_memory(ARENA);
    if (arena == NULL || size > ARENA || size + HEADER + 63 > ARENA - arena_used) {
        errno = ENOMEM;
        return NULL;
    }
    char *block = arena + arena_used + HEADER;
    arena_used += (size + HEADER + 63) & ~(size_t)63;
    arena_live++;
    memcpy(block - HEADER, &size, sizeof size);
    return block;
}

static void arena_release(void) {
    if (__atomic_sub_fetch(&arena_live, 1, __ATOMIC_ACQ_REL) == 0)
        arena_used = 0;
}

static void *arena_aligned(size_t alignment, size_t size) {
    return alignment <= HEADER ? arena_take(size) : NULL;
}

static void *bootstrap_malloc(size_t size) {
    return arena_take(size);
}

static void bootstrap_free(void *block) {
    if (in_arena(block))
        arena_release();
    else if (block != NULL)
        underlying.free(block);
}

static void *bootstrap_calloc(size_t count, size_t size) {
    size_t bytes;
    void *block = __builtin_mul_overflow(count, size, &bytes) ? NULL : arena_take(bytes);
    return block == NULL ? NULL : memset(block, 0, bytes);
}

static void *move_out(void *block, size_t size, void *to) {
    if (to != NULL && block != NULL) {
        size_t old;
        memcpy(&old, (char *)block - HEADER, sizeof old);
        memcpy(to, block, old < size ? old : size);
        arena_release();
    }
    return to;
}

static void *bootstrap_realloc(void *block, size_t size) {
    return move_out(block, size, arena_take(size));
}

static void *bootstrap_reallocarray(void *block, size_t count, size_t size) {
    return bootstrap_realloc(block, count * size);
}

static int bootstrap_posix_memalign(void **result, size_t alignment, size_t size) {
    void *block = arena_aligned(alignment, size);
    if (block == NULL)
        return ENOMEM;
    *result = block;
    return 0;
}

static void *bootstrap_page(size_t size) {
    (void)size;
    return NULL;
}

static size_t bootstrap_malloc_usable_size(void *block) {
    size_t size;
    if (!in_arena(block))
        return underlying.malloc_usable_size(block);
    memcpy(&size, (char *)block - HEADER, sizeof size);
    return size;
}

const struct allocator bootstrap = {
    .malloc = bootstrap_malloc,
    .free = bootstrap_free,
    .calloc = bootstrap_calloc,
    .realloc = bootstrap_realloc,
    .reallocarray = bootstrap_reallocarray,
    .aligned_alloc = arena_aligned,
    .memalign = arena_aligned,
    .posix_memalign = bootstrap_posix_memalign,
    .valloc = bootstrap_page,
    .pvalloc = bootstrap_page,
    .malloc_usable_size = bootstrap_malloc_usable_size,
};

/* realloc for the rest of the program's life when the arena holds blocks. */
static void *realloc_after_bootstrap(void *block, size_t size) {
    if (block == NULL || !in_arena(block))
        return underlying.realloc(block, size);
    return move_out(block, size, underlying.malloc(size));
}

enum real_sizes real_sizes;

/* No function of musl's. */
extern const char *gnu_get_libc_version(void) __attribute__((weak));

static const void *library_of(const void *function) {
    Dl_info info;
    return function != NULL && dladdr(function, &info) != 0 ? info.dli_fbase : NULL;
}

enum real_sizes real_sizes_of(const struct allocator *found) {
    const void *library, *of_sizes, *function;
    memcpy(&function, &found->free, sizeof function);
    library = library_of(function);
    memcpy(&function, &found->malloc_usable_size, sizeof function);
    of_sizes = library_of(function);
    if (library == NULL || library != of_sizes)
        return REAL_SIZES_UNKNOWN;
    const char *(*version)(void) = gnu_get_libc_version;
    memcpy(&function, &version, sizeof function);
    return library == library_of(function) ? REAL_SIZES_IN_HEADS : REAL_SIZES_BY_CALL;
}

void real_resolve(struct allocator *out) {
    struct allocator found;
#define X(name, result, parameters, arguments)                                                                         \
    {                                                                                                                  \
        void *symbol = dlsym(RTLD_NEXT, #name);                                                                        \
        memcpy(&found.name, &symbol, sizeof symbol);                                                                   \
    }
    MALLOW_ENTRIES(X)
#undef X
    musl_call_once(&found);
    underlying = found;
    real_sizes = real_sizes_of(&found);
    if (arena_live != 0) {
        found.free = bootstrap_free;
        found.realloc = realloc_after_bootstrap;
        found.malloc_usable_size = bootstrap_malloc_usable_size;
    }
    *out = found;
}

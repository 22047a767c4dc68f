/*
 * musl exports each function of its allocator so that a program can replace it, and calls some of them by these names:
 * calloc calls malloc; posix_memalign and memalign call aligned_alloc; valloc calls memalign; reallocarray calls
 * realloc. With a policy that gives blocks of its own (guard), such an inner call is worse than counted twice: musl
 * reads what it takes for the header of a block of its own, and crashes.
 *
 * musl 1.2.1 and later. Before, aligned_alloc calls malloc, too.
 */
#include "base/musl.h"
#include "arch.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

/* No function of musl's. */
extern const char *gnu_get_libc_version(void) __attribute__((weak));

/* What musl has, as it was found. */
static struct allocator own;

/* Pages that are zero already are only read: what the kernel has just given stays unwritten, as with musl's calloc. */
static void clear(char *block, size_t bytes) {
    for (; bytes > ARCH_PAGE; bytes -= ARCH_PAGE) {
        const char *page = block + bytes - ARCH_PAGE;
        if (page[0] != 0 || memcmp(page, page + 1, ARCH_PAGE - 1) != 0)
            memset((char *)page, 0, ARCH_PAGE);
    }
    memset(block, 0, bytes);
}

static void *musl_calloc(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    void *block = own.malloc(bytes);
    if (block != NULL)
        clear(block, bytes);
    return block;
}

static int musl_posix_memalign(void **result, size_t alignment, size_t size) {
    if (alignment < sizeof(void *))
        return EINVAL;
    void *block = own.aligned_alloc(alignment, size);
    if (block == NULL)
        return errno;
    *result = block;
    return 0;
}

static void *musl_valloc(size_t size) {
    return own.aligned_alloc(ARCH_PAGE, size);
}

/* count * size does not overflow: entries.h. */
static void *musl_reallocarray(void *block, size_t count, size_t size) {
    return own.realloc(block, count * size);
}

static const void *library_at(const void *address) {
    Dl_info info;
    return address != NULL && dladdr(address, &info) != 0 ? info.dli_fbase : NULL;
}

/* `pointer`: to a pointer to a function. */
static int is_in(const void *library, const void *pointer) {
    const void *function;
    memcpy(&function, pointer, sizeof function);
    return library != NULL && library_at(function) == library;
}

void musl_call_once(struct allocator *found) {
    if (gnu_get_libc_version != NULL)
        return;
    own = *found;
    const void *musl = library_at(dlsym(RTLD_NEXT, "getauxval"));
    if (is_in(musl, &found->calloc) && is_in(musl, &found->malloc))
        found->calloc = musl_calloc;
    if (is_in(musl, &found->reallocarray) && is_in(musl, &found->realloc))
        found->reallocarray = musl_reallocarray;
    if (!is_in(musl, &found->aligned_alloc))
        return;
    if (is_in(musl, &found->posix_memalign))
        found->posix_memalign = musl_posix_memalign;
    if (is_in(musl, &found->memalign))
        found->memalign = own.aligned_alloc;
    if (is_in(musl, &found->valloc))
        found->valloc = musl_valloc;
}

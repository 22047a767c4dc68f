/* build: -fno-builtin */
/*
 * Blocks of jemalloc, which is inside of this program or of a library: all sizes are size classes of it, so that what it says
 * of allocated bytes is what was asked for. Prints allocations, frees, and bytes by jemalloc's own counters. Argument
 * `again`: executes itself, and forks. Built with INLINED, a function has the fast path of malloc inlined, as LTO may do it.
 */
#include "target.h"
#include <sys/wait.h>

int mallctl(const char *name, void *old, size_t *old_length, void *new, size_t new_length);
void *mallocx(size_t size, int flags);
void *rallocx(void *block, size_t size, int flags);
size_t xallocx(void *block, size_t size, size_t extra, int flags);
void sdallocx(void *block, size_t size, int flags);
void dallocx(void *block, int flags);

static uint64_t allocated(void) {
    uint64_t bytes = 0;
    size_t length = sizeof bytes;
    CHECK(mallctl("thread.allocated", &bytes, &length, NULL, 0) == 0);
    return bytes;
}

__attribute__((noinline)) void *taken_here(size_t size) {
    void *block = malloc(size);
    return memset(block, 1, size);
}

#ifdef INLINED
void *je_malloc_default(size_t size);

/* The fast path itself is left out: its end shows that malloc is inlined. */
__attribute__((noinline)) void *taken_inlined(size_t size) {
    return memset(je_malloc_default(size), 1, size);
}
#endif

static void churn_inside(void) {
    enum { COUNT = 500 };
    static const size_t sizes[] = {16, 64, 128, 320, 1024, 4096, 16384, 65536};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    void *blocks[COUNT];
    for (int i = 0; i < COUNT; i++)
        blocks[i] = taken_here(sizes[i % SIZES]);
#ifdef INLINED
    free(keep(taken_inlined(64)));
#endif
    for (int i = 0; i < COUNT; i += 2)
        blocks[i] = keep(realloc(blocks[i], sizes[(i + 1) % SIZES]));
    for (int i = 0; i < COUNT; i++)
        free(blocks[i]);
    void *zeros = keep(calloc(4, 80)), *aligned = NULL;
    CHECK(posix_memalign(&aligned, 64, 128) == 0);
    void *second = keep(aligned_alloc(128, 1024));
    void *flagged = mallocx(4096, 0);
    flagged = rallocx(flagged, 16384, 0);
    CHECK(xallocx(flagged, 16384, 0, 0) == 16384);
    sdallocx(flagged, 16384, 0);
    dallocx(mallocx(64, 0), 0);
    free(second);
    free(aligned);
    free(zeros);
}

int main(int count, char **arguments) {
    int again = count > 1 && strcmp(arguments[1], "again") == 0;
    uint64_t before = allocated();
    churn_inside();
    uint64_t bytes = allocated() - before;
    /* xallocx to the size that a block has adds nothing to jemalloc's counter: it is a call all the same. */
    say("%d allocations %d frees %llu bytes\n", 500 + 250 + 3 + 4, 500 + 250 + 3 + 4,
        (unsigned long long)(bytes + 16384));
    if (again) {
        pid_t pid = fork();
        if (pid == 0) {
            free(taken_here(1024));
            _exit(0);
        }
        int status;
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
        execl("/proc/self/exe", arguments[0], (char *)NULL);
        CHECK(0);
    }
    return 0;
}

/* What a target knows of its own heap, by other means than Mallow: malloc_usable_size and mincore for its blocks, mallinfo2 and smaps_rollup for
   all. Blocks are noted in memory from mmap, and the answer is printed from the stack, so nothing here changes the heap. */
#ifndef RSS_TRUTH_H
#define RSS_TRUTH_H

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { TRUTH_PAGE = 4096, TRUTH_MOST = 1 << 21 };

struct truth_block {
    char *block;
    size_t requested;
};

static struct truth_block *truth_blocks;
static size_t truth_count;

static inline void truth_begin(void) {
    void *at = mmap(NULL, TRUTH_MOST * sizeof *truth_blocks, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        abort();
    truth_blocks = at;
}

/* A block that stays until the end. */
static inline void truth_note(void *block, size_t requested) {
    size_t at = __atomic_fetch_add(&truth_count, 1, __ATOMIC_RELAXED);
    if (block == NULL || at >= TRUTH_MOST)
        abort();
    truth_blocks[at] = (struct truth_block){block, requested};
}

static inline int truth_resident(uintptr_t page) {
    unsigned char is_there = 0;
    return mincore((void *)page, TRUTH_PAGE, &is_there) == 0 && (is_there & 1);
}

static int truth_order(const void *a, const void *b) {
    const char *x = ((const struct truth_block *)a)->block, *y = ((const struct truth_block *)b)->block;
    return (x > y) - (x < y);
}

static inline unsigned long truth_rollup(const char *key) {
    char text[4096];
    int fd = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[length > 0 ? length : 0] = 0;
    const char *at = strstr(text, key);
    return at == NULL ? 0 : strtoul(at + strlen(key), NULL, 10) * 1024;
}

/* Heap sort: qsort may allocate. */
static void truth_sort(void) {
    size_t count = truth_count;
    struct truth_block *b = truth_blocks;
    for (size_t start = count / 2, end = count; end > 1;) {
        if (start > 0) {
            start--;
        } else {
            end--;
            struct truth_block last = b[end];
            b[end] = b[0];
            b[0] = last;
        }
        for (size_t at = start; 2 * at + 1 < end;) {
            size_t child = 2 * at + 1;
            child += child + 1 < end && truth_order(&b[child], &b[child + 1]) < 0;
            if (truth_order(&b[at], &b[child]) >= 0)
                break;
            struct truth_block swapped = b[at];
            b[at] = b[child];
            b[child] = swapped;
            at = child;
        }
    }
}

/* Resident bytes of a range, of which the end may be mapped no more. */
static inline unsigned long truth_range(uintptr_t start, uintptr_t end) {
    static unsigned char pages[(64 << 20) / TRUTH_PAGE];
    unsigned long sum = 0;
    for (uintptr_t at = start; at < end; at += sizeof pages * TRUTH_PAGE) {
        uintptr_t to = end - at < sizeof pages * TRUTH_PAGE ? end : at + sizeof pages * TRUTH_PAGE;
        if (mincore((void *)at, to - at, pages) != 0)
            continue;
        for (size_t n = 0; n < (to - at) / TRUTH_PAGE; n++)
            sum += pages[n] & 1;
    }
    return sum * TRUTH_PAGE;
}

/* Resident bytes of glibc's heap and of the arenas with noted blocks. */
static inline unsigned long truth_heap(void) {
    static char maps[1 << 16];
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    size_t length = 0;
    for (ssize_t got; (got = read(fd, maps + length, sizeof maps - 1 - length)) > 0;)
        length += (size_t)got;
    close(fd);
    unsigned long sum = 0;
    char *name = strstr(maps, "[heap]"), *line = name;
    if (name != NULL) {
        while (line > maps && line[-1] != '\n')
            line--;
        char *end;
        uintptr_t start = strtoul(line, &end, 16);
        sum = truth_range(start, strtoul(end + 1, NULL, 16));
    }
    const uintptr_t arena = 64 << 20;
    uintptr_t last = 0;
    for (size_t n = 0; n < truth_count; n++) {
        uintptr_t block = (uintptr_t)truth_blocks[n].block, base = block & ~(arena - 1);
        if (block < (uintptr_t)sbrk(0) || base == last || block % TRUTH_PAGE == 16)
            continue;
        last = base;
        sum += truth_range(base, base + arena);
    }
    return sum;
}

/* What jemalloc says of itself; 0 where another one is the underlying allocator. */
static inline size_t truth_jemalloc(const char *name) {
    int (*mallctl)(const char *, void *, size_t *, void *, size_t);
    *(void **)&mallctl = dlsym(RTLD_DEFAULT, "mallctl");
    uint64_t epoch = 1;
    size_t value = 0, length = sizeof value;
    if (mallctl == NULL || mallctl("epoch", NULL, NULL, &epoch, sizeof epoch) != 0)
        return 0;
    return mallctl(name, &value, &length, NULL, 0) == 0 ? value : 0;
}

/* One line of JSON. `pinned`: resident pages with bytes of a noted block, of which `used` are its own. A chunk of glibc's heap has
   8 bytes before its block, and then a size that says so. */
static inline void truth_print(void) {
    truth_sort();
    unsigned long requested = 0, usable = 0, pinned = 0, used = 0, touched = 0;
    uintptr_t last = 0;
    for (size_t n = 0; n < truth_count; n++) {
        uintptr_t block = (uintptr_t)truth_blocks[n].block;
        size_t size = malloc_usable_size(truth_blocks[n].block);
        requested += truth_blocks[n].requested;
        usable += size;
        size_t header = size % 16 == 8 ? 8 : 0;
        for (uintptr_t at = block - header; at < block + size;) {
            uintptr_t page = at & ~(uintptr_t)(TRUTH_PAGE - 1), end = page + TRUTH_PAGE;
            end = end < block + size ? end : block + size;
            if (truth_resident(page)) {
                used += end - at;
                pinned += page != last;
                last = page;
                uintptr_t from = at > block ? at : block;
                uintptr_t to = end < block + truth_blocks[n].requested ? end : block + truth_blocks[n].requested;
                touched += to > from ? to - from : 0;
            }
            at = end;
        }
    }
    struct mallinfo2 info = mallinfo2();
    struct {
        const char *key;
        unsigned long value;
    } answers[] = {
        {"requested", requested},
        {"usable", usable},
        {"blocks", truth_count},
        {"pinned", pinned * TRUTH_PAGE},
        {"used", used},
        {"touched", touched},
        {"heap_resident", truth_heap()},
        {"in_use", info.uordblks},
        {"own_mappings", info.hblkhd},
        {"jemalloc_allocated", truth_jemalloc("stats.allocated")},
        {"jemalloc_active", truth_jemalloc("stats.active")},
        {"jemalloc_resident", truth_jemalloc("stats.resident")},
        {"jemalloc_metadata", truth_jemalloc("stats.metadata")},
        {"rss", truth_rollup("Rss:")},
        {"pss", truth_rollup("Pss:")},
    };
    char line[1024] = "";
    size_t length = 0;
    for (size_t n = 0; n < sizeof answers / sizeof *answers; n++) {
        const char *before = n == 0 ? "{" : ",";
        length += (size_t)snprintf(line + length, sizeof line - length, "%s\"%s\":%lu", before, answers[n].key,
                                   answers[n].value);
    }
    length += (size_t)snprintf(line + length, sizeof line - length, "}\n");
    if (write(STDOUT_FILENO, line, length) != (ssize_t)length)
        abort();
}

#endif

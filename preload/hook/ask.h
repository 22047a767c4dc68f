/*
 * Allocators inside: the part of the wire that images write at their start. base/wire.h has the rules of all layouts.
 *
 * An image that starts asks which functions of its modules are to be patched, and waits. Mallow plans the patches; the
 * image, which has one thread then, maps areas near the modules, fills them, and writes the jumps. It asks again for
 * libraries that it loads, before their code runs.
 *
 *   DIR/inside/a-PID-SERIAL   | mallow_ask | text of /proc/self/maps |
 *   DIR/inside/r-PID-SERIAL   | mallow_patches | mallow_area[] | mallow_write[] | bytes of the areas |
 *   DIR/inside/n-KEY          empty: an image of these modules has no allocator inside, and need not ask
 *
 * A jump leads to code in an area, which loads the address of a struct mallow_hook into the sixth argument's register
 * and jumps to a stub of the library.
 */
#ifndef MALLOW_ASK_H
#define MALLOW_ASK_H

#include <stdint.h>

#define MALLOW_ASK_MAGIC     0x414c414du /* "MALA" */
#define MALLOW_PATCHES_MAGIC 0x584c414du /* "MALX" */

/* So many libraries that come later are in one question. */
#define MALLOW_ASK_LIBRARIES 32

/* Stubs, by where a function has its arguments; see preload/hook/stubs.c. */
enum mallow_stub {
    MALLOW_STUB_ALLOCATE,                /* (size, …) */
    MALLOW_STUB_ALLOCATE_SECOND,         /* (x, size, …) */
    MALLOW_STUB_ALLOCATE_COUNT,          /* (count, size, …) */
    MALLOW_STUB_ALLOCATE_COUNT_SECOND,   /* (x, count, size, …) */
    MALLOW_STUB_ALLOCATE_TEXT,           /* returns a string */
    MALLOW_STUB_ALLOCATE_RESULT,         /* posix_memalign: (result, alignment, size) */
    MALLOW_STUB_FREE,                    /* (block, …) */
    MALLOW_STUB_REALLOCATE,              /* (block, size, …) */
    MALLOW_STUB_REALLOCATE_SECOND,       /* (x, block, size, …) */
    MALLOW_STUB_REALLOCATE_COUNT,        /* (block, count, size, …) */
    MALLOW_STUB_REALLOCATE_COUNT_SECOND, /* (x, block, count, size, …) */
    MALLOW_STUB_REALLOCATE_FOURTH,       /* (block, x, y, size) */
    MALLOW_STUB_RESIZE,                  /* xallocx: (block, size, …) returns the usable size */
    MALLOW_STUB_EXPAND,                  /* mi_expand: (block, size) returns the block, or NULL */
    MALLOW_STUB_NEW,                     /* operator new of a library: (size, …) */
    MALLOW_STUB_NEW_ALIGNED,             /* (size, alignment, …) */
    MALLOW_STUB_DELETE,                  /* (block, …) */
    MALLOW_STUB_COUNT
};

enum mallow_ask_state {
    MALLOW_ASK_WAITS = 1,
    MALLOW_ASK_NOTHING = 2,  /* written by mallow, which then wakes state: there is nothing to patch */
    MALLOW_ASK_ANSWERED = 3, /* written by mallow, which then wakes state: struct mallow_patches is there */
    MALLOW_ASK_PATCHED = 4,  /* written by the image: done */
    MALLOW_ASK_FAILED = 5,   /* written by the image: nothing is patched; see error */
    MALLOW_ASK_GIVEN_UP = 6, /* written by the image, which waited too long */
};

/* Why an image did not write the patches: an errno, or one of these. */
#define MALLOW_ASK_THREADS 1000u /* it has several threads already */
#define MALLOW_ASK_CHANGED 1001u /* the code is not what mallow found in the file */

struct mallow_ask {
    uint32_t magic; /* MALLOW_ASK_MAGIC */
    uint32_t version;
    uint32_t state; /* enum mallow_ask_state; a futex */
    uint32_t pid;
    uint64_t key;        /* of its modules */
    uint32_t maps_bytes; /* of the text that follows */
    uint32_t error;
    uint64_t stub[MALLOW_STUB_COUNT]; /* addresses, by enum mallow_stub */
    /*
     * The libraries that have come, each by an address in it; the rest is 0. All 0: the image starts, all modules are
     * meant.
     */
    uint64_t library[MALLOW_ASK_LIBRARIES];
};

struct mallow_patches {
    uint32_t magic; /* MALLOW_PATCHES_MAGIC */
    uint32_t version;
    uint32_t areas;
    uint32_t writes;
};

struct mallow_area {
    uint64_t address;
    uint64_t bytes;  /* whole pages */
    uint64_t offset; /* of its bytes in the file */
    uint64_t reused; /* 1: it is mapped already; it was that of a library which is gone */
};

struct mallow_write {
    uint64_t at;
    uint8_t before[8]; /* five of them */
    uint8_t after[8];
    uint64_t function; /* its address: at, or that of an endbr64 before it */
    uint64_t original; /* does what the function does */
};

/* What a stub finds: constants in an area. */
struct mallow_hook {
    uint64_t original;     /* does what the function does, by the code that the jump displaced */
    uint64_t usable;       /* the allocator's function for the usable size of a block; 0: none is known */
    uint32_t family;       /* enum mallow_family */
    uint32_t library;      /* 1: the allocator is a library, after libmallow.so in the search order */
    uint64_t module_start; /* addresses of the module that has the allocator inside */
    uint64_t module_end;
};

_Static_assert(sizeof(struct mallow_ask) == 424, "ask layout");

#endif

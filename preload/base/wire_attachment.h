/*
 * The wire of a process that mallow attached to. Its library was loaded by dlopen, and has this in its memory as
 * `mallow_attachment`: patched entries lead to it. Mallow reads and writes it while the process runs, and leaves in it
 * what a later mallow needs. See base/wire.h.
 */
#ifndef MALLOW_WIRE_ATTACHMENT_H
#define MALLOW_WIRE_ATTACHMENT_H

#include <stdint.h>

#define MALLOW_ATTACHMENT_MAGIC 0x414c414du /* "MALA" */
#define MALLOW_LATE_MEMORY      10u /* functions that are patched: MALLOW_HOT and MALLOW_OTHER of base/entries.h */
#define MALLOW_LATE             12u /* and prctl and syscall, by which a program installs a filter of system calls */
#define MALLOW_INSIDE_MOST      3u
#define MALLOW_PATCHED_MOST     16u
#define MALLOW_STUBS            17u /* enum mallow_stub of hook/ask.h */

struct mallow_late {
    uint64_t
        function; /* where calls of the name lead; 0: nowhere. Written when the library was loaded, as the next one */
    uint64_t replacement; /* of the library: has the function's arguments and return address */
    uint64_t trampoline;  /* what the function does without its patch; written by mallow */
};

/* Code whose calls of these functions are no calls of the program: the allocator's own. */
struct mallow_inside {
    uint64_t start, bytes;
};

/* A module, by the address that it begins at, and the code of its patches. It stays mapped, for the next attachment. */
struct mallow_patched {
    uint64_t module, area;
};

enum mallow_attachment_state {
    MALLOW_ATTACHMENT_LEFT = 0,   /* no run: dormant */
    MALLOW_ATTACHMENT_JOINED = 1, /* it takes part in the run of `directory` */
};

struct mallow_attachment {
    uint32_t magic;   /* MALLOW_ATTACHMENT_MAGIC */
    uint32_t version; /* MALLOW_WIRE_VERSION */
    uint32_t late;    /* 1: mallow attached; written into the library's file before it is loaded */
    uint32_t state;   /* enum mallow_attachment_state */
    uint64_t join;    /* functions of the library without arguments: joins `directory`, 0 if it does; */
    uint64_t leave;   /* leaves it, when no thread is in the library and no entry is patched; again: unmaps its files */
    int64_t tls;      /* from a thread's pointer to its thread-local variables of the library; all are 0 at first */
    uint32_t arrival; /* written by mallow: 1: no path leads to `directory`; `join` waits for a descriptor of it */
    uint32_t socket;  /* meanwhile: the process's descriptor of the socket that mallow sends it by, plus 1; or 0 */
    uint64_t stub[MALLOW_STUBS]; /* addresses of stubs for allocators inside of modules, by enum mallow_stub */
    struct mallow_patched patched[MALLOW_PATCHED_MOST]; /* written by mallow before the first patch; area 0: none */
    struct mallow_inside inside[MALLOW_INSIDE_MOST];    /* written by mallow before the first patch */
    struct mallow_late entries[MALLOW_LATE];
    char directory[480]; /* the run directory, as mallow names it; written by mallow */
};

_Static_assert(sizeof(struct mallow_attachment) == 1256, "attachment layout");

#endif

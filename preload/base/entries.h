/*
 * The one list of interposed functions.
 *
 * X(name, result type, parameters, arguments)
 */
#ifndef MALLOW_ENTRIES_H
#define MALLOW_ENTRIES_H

#include "base/sys.h"
#include "base/wire.h"

struct arch_frame;
struct file_layout;

/* malloc_usable_size of some allocator. */
typedef size_t usable_size(const void *block);

/* The three that programs call all the time; entries.c counts their calls in place. */
#define MALLOW_HOT(X)                                                                                                  \
    X(malloc, void *, (size_t size), (size))                                                                           \
    X(free, void, (void *block), (block))                                                                              \
    X(calloc, void *, (size_t count, size_t size), (count, size))

/* The others. count * size does not overflow where a policy is called. */
#define MALLOW_OTHER(X)                                                                                                \
    X(reallocarray, void *, (void *block, size_t count, size_t size), (block, count, size))                            \
    MALLOW_PASSED(X)

/* Of these, the ones that jump to the policy at once. */
#define MALLOW_PASSED(X)                                                                                               \
    X(realloc, void *, (void *block, size_t size), (block, size))                                                      \
    X(posix_memalign, int, (void **result, size_t alignment, size_t size), (result, alignment, size))                  \
    MALLOW_ALIGNED(X)

/* Of these, the ones that take a size last and return the block: policies serve them by one wrapper. */
#define MALLOW_ALIGNED(X)                                                                                              \
    X(aligned_alloc, void *, (size_t alignment, size_t size), (alignment, size))                                       \
    X(memalign, void *, (size_t alignment, size_t size), (alignment, size))                                            \
    X(valloc, void *, (size_t size), (size))                                                                           \
    X(pvalloc, void *, (size_t size), (size))
#define MALLOW_FAMILY_OF_aligned_alloc MALLOW_FAMILY_ALIGNED_ALLOC
#define MALLOW_FAMILY_OF_memalign      MALLOW_FAMILY_MEMALIGN
#define MALLOW_FAMILY_OF_valloc        MALLOW_FAMILY_VALLOC
#define MALLOW_FAMILY_OF_pvalloc       MALLOW_FAMILY_PVALLOC

/* Queries: they change no block. */
#define MALLOW_QUERIES(X) X(malloc_usable_size, size_t, (void *block), (block))

#define MALLOW_ENTRIES(X) MALLOW_HOT(X) MALLOW_OTHER(X) MALLOW_QUERIES(X)

/* Our own exported functions, by names that nobody else can define. */
#define X(name, result, parameters, arguments) extern result entry_##name parameters HIDDEN;
MALLOW_HOT(X)
MALLOW_OTHER(X)
#undef X

#define MALLOW_MEMBER(name, result, parameters, arguments) result(*name) parameters;

/* An allocator: all entry points. */
struct allocator {
    MALLOW_ENTRIES(MALLOW_MEMBER)
};

/*
 * The underlying allocator: the next one in the search order of the dynamic linker. It starts with functions that
 * initialise and call again, so that the hot path has no test for it.
 */
extern struct allocator real HIDDEN;

/* A call of a patched function of another allocator: hook/ calls the allocator itself. */
struct hooked_call {
    void *old;   /* the block that it frees or reallocates; NULL: none */
    void *block; /* the block that it returned; NULL: none */
    size_t size;
    uint32_t family;
    int64_t old_bytes;              /* the policy's own: what `reallocating` leaves for `reallocated` */
    usable_size *usable;            /* of the allocator; may be NULL */
    const struct arch_frame *frame; /* of the function in the caller's place */
};

/* What a recording does of such calls. */
struct hooked_policy {
    void (*allocated)(const struct hooked_call *call);
    void (*freed)(const struct hooked_call *call);  /* before it is */
    void (*reallocating)(struct hooked_call *call); /* before it is; may be NULL */
    void (*reallocated)(
        const struct hooked_call *call); /* block NULL: it failed, or size is 0 and the old block was freed */
};

/*
 * What a recording does, and what of the process's life it wants to know. One for each mode; policies.c lists them, and
 * base knows none by name.
 *
 * Each entry function runs in the frame of an exported one, by a jump: its return address is the caller's, and its
 * frame address where the stack begins.
 */
struct policy {
    /* After malloc and calloc returned a block; return the block. */
    void *(*malloc_done)(void *block, size_t size);
    void *(*calloc_done)(void *block, size_t count, size_t size);
    /* Instead of free on non-NULL; NULL: nothing is. */
    void (*free)(void *block);
    MALLOW_OTHER(MALLOW_MEMBER)
    /* NULL: nothing is recorded of patched functions. */
    const struct hooked_policy *hooked;
    /* Where the thread's allowance is used up; NULL where no thread has one. */
    void *(*malloc_due)(size_t size);
    void *(*calloc_due)(size_t count, size_t size);
    /* Of a block within owned_range; NULL where there is none. */
    void (*free_owned)(void *block);
    size_t (*usable_size_owned)(const void *block);

    /* ---- hooks: each may be NULL ---- */

    /* 1: it records also while no mallow reads. */
    int reads_later;
    /*
     * This policy was chosen: before anything is recorded. Returns the one whose entry functions serve: itself, or a
     * variant.
     */
    const struct policy *(*setup)(void);
    /* From the library's constructor. */
    void (*loaded)(void);
    /* Nothing more is to be recorded in this image. */
    void (*over)(enum mallow_over why);
    /*
     * The program has installed a filter of system calls that forbids what samples need: no system call from here on.
     */
    void (*filtered)(void);
    /* From here on events can be counted as lost alone. NULL: the recording goes on as it can. */
    void (*lose)(void);
    /* The image ends at once: by _exit or exit_group. */
    void (*exit_at_once)(void);
    /* The process leaves the run that it was attached to, and may join another one. No thread is in the library. */
    void (*left)(void);
    /* Around fork: in the parent before it and after it, and in the child, also in one that a bare clone made. */
    void (*fork_begins)(void);
    void (*fork_ended)(void);
    void (*forked)(void);
    /* The process file: lays out the policy's part, from layout->bytes on, and moves that to its end; UINT64_MAX: it
     * does not fit. */
    void (*file_layout)(struct file_layout *layout);
    /*
     * Its part of the new file, which is mapped: makes what it needs exist. 0: there is no memory. With target_lock
     * held.
     */
    int (*file_mapped)(struct mallow_process *process, const struct file_layout *layout);
    /* target.process is the new file. With target_lock held. */
    void (*file_opened)(void);
    /*
     * A thread block gets what it needs, if it has not got it from an earlier owner. 0: there is no memory. For its
     * owner.
     */
    int (*thread_start)(struct mallow_thread *block);
    /*
     * The calling thread ends: its block is given back after this. Only where thread_enter or thread_watch_end was
     * called.
     */
    void (*thread_end)(void);
    /* A run of a measured region begins or ends. */
    void (*region)(uint32_t number, int end, int this_thread);
};

/* The entry functions that serve. */
extern struct policy policy HIDDEN;

/* That of the control page's mode, for its hooks; one without any where nothing is recorded. */
extern const struct policy *recording HIDDEN;

/* policies.c: by enum mallow_mode; NULL: this build does not have it. */
extern const struct policy *const policies[MALLOW_MODE_DORMANT + 1] HIDDEN;

extern const struct policy no_policy HIDDEN; /* nothing: the underlying allocator alone */

/*
 * Puts a policy's entry functions in place. Each pointer is replaced by itself: all policies can serve at any moment.
 */
void policy_install(const struct policy *from);
/*
 * The executable defines malloc itself, and its functions are patched: what still comes through ours is the C library's
 * alone, and must reach it unchanged.
 */
void policy_pass_through(void);
/* The `over` of policies that have nothing else to do: the underlying allocator is called directly from then on. */
void policy_remove(enum mallow_over why);

/*
 * Bytes that the thread may allocate before the policy is to see an allocation: entries.c counts down in place. 0 in a
 * thread that did not allocate yet, and always where the policy gives none: then malloc_done and calloc_done see each
 * one.
 */
extern _Thread_local uint64_t allowance __attribute__((tls_model("initial-exec"))) HIDDEN;

/* Takes `size` bytes off it. 0: it does not cover them, and is as it was. */
static inline int allowance_covers(size_t size) {
    uint64_t left = allowance;
    if (UNLIKELY(size >= left))
        return 0;
    allowance = left - size;
    return 1;
}

/* The addresses of blocks that are the policy's own. bytes 0: there are none. Written once, before the first such
 * block is given away. */
extern struct owned_range { uintptr_t start, bytes; } owned_range HIDDEN;

static inline int is_owned(const void *block) {
    return (uintptr_t)block - owned_range.start < owned_range.bytes;
}

#endif

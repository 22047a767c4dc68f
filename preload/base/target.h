/*
 * What the process knows about its recording. One process image has one struct target; all of it is private memory
 * except what the pointers lead to.
 */
#ifndef MALLOW_TARGET_H
#define MALLOW_TARGET_H

#include "base/sys.h"
#include "base/wire.h"

#define MALLOW_DIRECTORY 480u

struct target {
    struct mallow_control *control; /* NULL: no recording; every call goes to the real allocator */
    struct mallow_process *process; /* NULL until the first event of this image */
    struct mallow_module *modules;  /* in the process file */
    struct mallow_thread *threads;  /* in the process file */
    char *part;                     /* the policy's own part of the process file */
    uint32_t pid;
    uint32_t settings; /* enum mallow_setting, or-ed */
    int losing, over;  /* events are counted as lost, and no more; or not even that */
    /*
     * NULL: sys_open. Otherwise it opens files of a run directory to which no path leads: target.directory is `.` then.
     */
    long (*open)(const char *path, int flags, unsigned mode);
    char directory[MALLOW_DIRECTORY]; /* the run directory as this process reaches it, without a slash at the end */
    char named[MALLOW_DIRECTORY];     /* as the environment names it */
    char library[MALLOW_DIRECTORY];   /* libmallow.so as LD_PRELOAD names it; empty where that is not known */
};

extern struct target target HIDDEN;

/*
 * All ones, on a page that reads as zero in a child made by fork or clone. `and`-ed with a thread's block it is one
 * instruction, and distinguishes a copied image from the one that owns the block even where no fork handler ran.
 */
extern uintptr_t image_alive HIDDEN;

/* Held while the process file, its module list or its thread list grow, with signals blocked: never while the target's
 * code can run. */
extern uint32_t target_lock;

/* Stops recording in this process for good: from here on calls go straight to the real allocator. */
void target_stop(void);
/* Events of this process are counted as lost from here on; a forked child is recorded anew. */
void target_count_lost(void);
/* Whether either was called. */
int target_is_stopped(void);
/* init.c: joins the run of target.named, whose policy serves from here on. 0, or -1 where there is none. */
int target_join(void);
/* init.c: these are called around fork in the parent; in the child, target_forked. */
void target_watch_forks(void (*begins)(void), void (*ended)(void));
/* In a forked child: ends the counting of lost events. 1 if there was any: the child is recorded anew. */
int target_resume_in_child(void);

/* Opens a file of the run directory, by a path that begins with target.directory. */
static inline long target_open(const char *path, int flags, unsigned mode) {
    return (target.open != NULL ? target.open : sys_open)(path, flags, mode);
}

/* Opens DIR/control as a program that is executed now would, and writes the DIR that it is reached by. A descriptor,
 * or -errno. */
long target_open_control(char directory[MALLOW_DIRECTORY], int flags);

/* Where the parts of a process file begin. */
struct file_layout {
    uint64_t threads, part, bytes;
    uint64_t most; /* bytes that the file may have */
    uint32_t max_threads;
};

/* process.c: that of a file with so many thread blocks, and no part of the policy's. */
struct file_layout file_layout(uint32_t max_threads, uint64_t most);

/* process.c: makes the process file. 0, or -1 after target_stop(). Call with target_lock held. */
int process_open(void);

static inline void doorbell_ring(void) {
    __atomic_fetch_add(&target.control->doorbell, 1, __ATOMIC_RELEASE);
    sys_futex_wake(&target.control->doorbell);
}

/* ---- thread.c ---- */

/* The calling thread's block, or NULL: none yet, or this is a copied image. Initial-exec: one load off fs. */
extern _Thread_local struct mallow_thread *own_block __attribute__((tls_model("initial-exec"))) HIDDEN;

static inline struct mallow_thread *thread_block(void) {
    return (struct mallow_thread *)((uintptr_t)own_block & image_alive);
}

/* The same where the policy lets entries.c count in place; NULL always under others. */
extern _Thread_local struct mallow_thread *own_counters __attribute__((tls_model("initial-exec"))) HIDDEN;

static inline struct mallow_thread *counting_block(void) {
    return (struct mallow_thread *)((uintptr_t)own_counters & image_alive);
}

static inline void count_allocation(struct mallow_thread *mine, enum mallow_family family, size_t size) {
    mine->counter[family].allocations++;
    mine->counter[family].bytes += size;
}

/*
 * Gives the calling thread a block: one that an ended thread left, or a new one. NULL when none can be had (the event
 * is then counted as unrecorded) or when called again from within itself.
 */
COLD struct mallow_thread *thread_enter(void);
/* The calling thread asked in vain, and is not to ask again as yet: the event was counted as unrecorded. */
COLD int thread_is_refused(void);

static inline uint32_t thread_index(const struct mallow_thread *block) {
    return (uint32_t)(block - target.threads);
}

/* Finds where the C library keeps a thread's id. It looks a symbol up: while nothing is counted. */
void thread_find_id(void);
/* Prepares the key whose destructor gives blocks back. From the constructor, or before. */
void thread_setup(void);
/* The policy's thread_end is to be called when the calling thread ends. 0: it is too late for that. */
int thread_watch_end(void);
/* The calling thread's id. */
uint32_t thread_id(void);
/* In a child: forgets the parent's file and this thread's block; the next event makes the child's own. */
void target_forked(void);

#endif

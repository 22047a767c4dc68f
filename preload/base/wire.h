/*
 * Every layout that crosses the border between a target process and mallow.
 *
 * The run directory is the interface (docs/WIRE.md describes all of it):
 *
 *   DIR/control        struct mallow_control, one page, made by mallow before the target starts
 *   DIR/p-PID-SERIAL   struct mallow_process and what follows it, one file for each process image, made by the target
 *   DIR/tables/KEY     struct mallow_table and what follows it: a module's unwind rules, made by mallow
 *   DIR/results        struct mallow_result, one for each measured run, appended by targets
 *   DIR/inside/…       questions of images about allocators inside, and answers: hook/ask.h
 *
 * Both sides map these files shared. The target trusts mallow's files; mallow trusts nothing in the target's.
 * All fields are little-endian and naturally aligned. A change of any layout here changes MALLOW_WIRE_VERSION.
 * crates/capture/src/wire.rs mirrors this file, and a test of that crate compares every size and offset with it.
 */
#ifndef MALLOW_WIRE_H
#define MALLOW_WIRE_H

#include <stdint.h>

#define MALLOW_WIRE_VERSION 20u

#define MALLOW_CONTROL_MAGIC 0x434c414du /* "MALC" */
#define MALLOW_PROCESS_MAGIC 0x504c414du /* "MALP" */
#define MALLOW_TABLE_MAGIC   0x544c414du /* "MALT" */

/* The environment variable that carries the path of the run directory. */
#define MALLOW_DIR_VARIABLE "MALLOW_DIR"

enum mallow_mode {
    MALLOW_MODE_COUNT = 1, /* counters only */
    MALLOW_MODE_TRACE = 2, /* every event, with its stack, through rings */
    MALLOW_MODE_IDLE = 3,  /* nothing is counted; measured regions run as they do when counted */
    /* These two may take each other's place while targets run; what a target saw last is in its file. */
    MALLOW_MODE_SAMPLE = 4,  /* allocations picked at random, with their stacks, in slots; see struct mallow_sampling */
    MALLOW_MODE_DORMANT = 5, /* nothing is picked; what was picked before is followed to its end */
};

enum mallow_control_flag {
    MALLOW_NO_CHILDREN = 1, /* only the process root_pid takes part */
    MALLOW_SELF_CHECK = 2,  /* each image proves at its start that it counts: results CHECK and PLANTED */
    MALLOW_SCAN = 4,        /* a traced image that exits waits until its memory was read: process.exit_state */
    MALLOW_SCAN_FORKED = 8, /* one that began with fork, too */
    MALLOW_INSIDE = 16,     /* mallow patches allocators inside of images at their start: struct mallow_ask */
    MALLOW_MEMORY = 32,     /* a traced image that exits waits until mallow has read its mappings: process.exit_state */
    MALLOW_GUARD = 64,      /* samples are guarded: struct mallow_guard */
    MALLOW_GUARD_EVERY = 128, /* every allocation is one */
    MALLOW_GUARD_ABORT = 256, /* a target that finds an error ends by SIGABRT */
    MALLOW_GUARD_LEAKS =
        512, /* an image that exits waits until the keeper has searched its memory: process.exit_state */
    MALLOW_GUARD_HANDLER = 1024, /* where userfaultfd is refused, a signal handler may take its place */
    MALLOW_GUARD_CRASHES = 2048, /* a signal that would end the target is reported first: struct mallow_guard_crash */
    MALLOW_NO_ARGUMENTS = 4096,  /* images note the first word of their command line alone */
};

/* control.epoch: the recording is over; targets stop writing events and call the real allocator alone. */
#define MALLOW_EPOCH_OVER UINT64_MAX

#define MALLOW_MAX_UNREACHED 24u

enum mallow_unreached_state {
    MALLOW_UNREACHED_FREE = 0,
    MALLOW_UNREACHED_BUSY = 1,     /* its name is being written */
    MALLOW_UNREACHED_NOTED = 2,    /* executed, or just about to be: an exec that fails gives the entry back */
    MALLOW_UNREACHED_WITHOUT = 3,  /* the same, with an environment that names no run directory, or not the library */
    MALLOW_UNREACHED_UNLINKED = 4, /* the same, of a file into which no dynamic linker loads the library */
};

/* A program that is executed in a mount namespace, below a root directory or with rights from where the run
 * directory or the library cannot be opened; or without the variables that lead there; or without a dynamic linker. */
struct mallow_unreached {
    uint32_t state; /* enum mallow_unreached_state; release order; taken by compare-and-swap */
    uint32_t pid;   /* in its own namespace */
    char name[120]; /* as it was named to exec, of an unlinked one its path; from its end where it is longer; ends with
                       NUL */
};

struct mallow_control {
    uint32_t magic;      /* MALLOW_CONTROL_MAGIC */
    uint32_t version;    /* MALLOW_WIRE_VERSION */
    uint32_t mode;       /* enum mallow_mode */
    uint32_t flags;      /* enum mallow_control_flag, or-ed */
    uint32_t max_depth;  /* frames a stack keeps at the most */
    uint32_t reader_pid; /* mallow's own pid */
    uint32_t root_pid;   /* the launched command's pid; written before its exec */
    /* Ring sizes in words (powers of two): the first MALLOW_LARGE_RINGS threads of a process have large ones. */
    uint32_t large_ring_words;
    uint32_t small_ring_words;
    uint32_t max_threads;      /* thread blocks in a process file; later threads share the last block's lost counter */
    uint32_t failed_processes; /* images that could not make their file; added to atomically by targets */
    /* How measured regions run, see include/mallow.h. */
    uint32_t warmups;    /* runs that come first */
    uint32_t runs;       /* measured runs */
    uint32_t operations; /* that a run is to perform; 0: as the program likes */
    uint32_t quiet_ms;   /* how long a run's beginning and end wait for other threads at the most */
    uint32_t regions;    /* runs of regions begun, in all processes; added to atomically by targets */
    /* Its own cache line: read by each event, written about once a millisecond by mallow alone. */
    uint64_t epoch; /* milliseconds since the recording began; also the reader's heartbeat; starts at 1 */
    uint64_t epoch_pad[7];
    /* Its own cache line: a futex. Targets add 1 and wake it when mallow should look at once:
     * a process file is ready, a module waits for its table, a ring is full. */
    uint32_t doorbell;
    uint32_t asleep; /* mallow sleeps on doorbell: a ring or a log that fills is worth a wake-up */
    uint32_t doorbell_pad[14];
    /* Sampling. period and mode may change at any time: a thread looks at them when it picked an allocation, and about
     * once in MALLOW_SAMPLE_LOOK allocated bytes. The others are read when a process makes its file. */
    uint64_t period;      /* bytes from one pick to the next, on average: 1 … MALLOW_PERIOD_MOST */
    uint64_t stack_bytes; /* of a process's store of stacks */
    uint32_t max_slots;   /* live samples of a process at the most */
    uint32_t max_ends;    /* ends of samples that a process remembers: a power of two */
    /* Measured regions again: how long the end of a measured run waits at the most until nothing of it is unfreed. */
    uint32_t settle_ms;
    uint32_t asks; /* a futex: an image adds 1 and wakes it when its struct mallow_ask is ready */
    /* Guarding. */
    uint32_t guard_pages;     /* of live guarded blocks at the most */
    uint32_t guard_place;     /* enum mallow_guard_place */
    uint32_t guard_alignment; /* of blocks at the end of their pages, at least: a power of two */
    uint32_t guard_filters;   /* filters of system calls that mallow itself runs under */
    uint32_t guard_keeper;    /* pid of the process that takes userfaultfds; 0: there is none any more */
    uint32_t sample_pad[3];
    /* Its own cache line: does mallow read? Targets look at it before they wait, and at no other time. */
    uint32_t reader; /* a robust futex: id of the thread by whose life mallow reads; 0: nobody reads, nobody died;
                            * the kernel sets MALLOW_READER_DIED when that thread ends in any way */
    uint32_t ping;   /* a futex: a target that waited in vain adds 1 and wakes that thread; … */
    uint32_t pong;   /* … which writes here which ping it saw last, and does nothing else: it needs no disk */
    uint32_t reader_pad;
    uint64_t reader_start; /* field starttime of that thread's stat in /proc: identifies it; 0: not known */
    uint64_t silent;       /* the epoch at which a target found that mallow is stopped: while epoch is the same,
                            * nobody waits; 0: never */
    uint64_t silent_pad[4];
    /* Programs that were executed out of reach of this directory; written by targets. */
    uint32_t unreached_more; /* without those in the list */
    uint32_t unreached_pad;
    struct mallow_unreached unreached[MALLOW_MAX_UNREACHED];
};

/* control.reader: FUTEX_OWNER_DIED. */
#define MALLOW_READER_DIED 0x40000000u

#define MALLOW_SAMPLE_LOOK (1ull << 20)
#define MALLOW_PERIOD_MOST UINT32_MAX

#define MALLOW_LARGE_RINGS 8u

/* ---- a process file -------------------------------------------------------------------------------------------
 *
 *   0                 modules_offset      threads_offset          rings_offset                         file_bytes
 *   | mallow_process  | mallow_module[]   | mallow_thread[]       | words of ring 0 | ring 1 | …       |
 *
 * The file is sparse; the target makes pages exist before it writes to them, so that a full tmpfs is an error code
 * and never a SIGBUS. In counting mode there are no rings, and rings_offset equals file_bytes. In sampling and dormant
 * mode struct mallow_sampling takes their place, with what it leads to.
 */

enum mallow_process_state {
    MALLOW_PROCESS_FILLING = 0, /* the header is not complete: skip the file for now */
    MALLOW_PROCESS_READY = 1,
    MALLOW_PROCESS_CLOSED = 2, /* written by mallow: it reads this file no more; the target stops recording */
};

enum mallow_setting {
    MALLOW_SETTING_PYTHON_MALLOC = 1, /* PYTHONMALLOC is malloc or malloc_debug: no arenas of Python's own */
    MALLOW_SETTING_ZEND_MALLOC = 2,   /* USE_ZEND_ALLOC is 0: no chunks of PHP's own */
};

enum mallow_origin {
    MALLOW_ORIGIN_EXEC = 1,   /* this image began with exec: its heap began empty */
    MALLOW_ORIGIN_FORK = 2,   /* it began with fork: it may free blocks that its parent allocated */
    MALLOW_ORIGIN_ATTACH = 3, /* it ran already: it may free blocks that it allocated before */
};

/* An image at its end. A traced one waits after its atexit handlers, while mallow reads its memory. */
enum mallow_exit {
    MALLOW_EXIT_NOT = 0,
    MALLOW_EXIT_WAITS = 1, /* written by the target, after the three words of exit, with release order */
    MALLOW_EXIT_GO_ON = 2, /* written by mallow in place of WAITS, which then wakes exit_state as a futex */
    MALLOW_EXIT_SANDBOXED =
        3,                   /* written by the target: it does not wait, because a filter may forbid its system calls */
    MALLOW_EXIT_GAVE_UP = 4, /* written by the target in place of WAITS: mallow is gone or stopped */
    MALLOW_EXIT_EXEC =
        5, /* written by the target in place of NOT: it calls exec; an exec that fails writes NOT again */
};

#define MALLOW_MAX_SIZE_CLASSES 96u

/*
 * The lock of a process file (F_OFD_SETLK, for writing) belongs to the open file, and that to the image's mapping: the
 * descriptor is closed. The kernel drops it when the image ends or execs, in whatever namespace. A forked child holds
 * it as well, with the mapping that it inherits: a lock that is gone says that the image is, a lock that is there does
 * not say that it lives.
 */
struct mallow_process {
    uint32_t magic;   /* MALLOW_PROCESS_MAGIC */
    uint32_t version; /* MALLOW_WIRE_VERSION */
    uint32_t state;   /* enum mallow_process_state; written last, with release order */
    uint32_t mode;    /* enum mallow_mode */
    uint32_t pid;
    uint32_t parent_pid;
    uint32_t origin;         /* enum mallow_origin */
    uint32_t serial;         /* 0 for a pid's first image, then 1, 2, … at each exec or re-creation */
    uint64_t start_ns;       /* CLOCK_MONOTONIC */
    uint64_t file_bytes;     /* size of this file */
    uint64_t modules_offset; /* of struct mallow_module[MALLOW_MAX_MODULES] */
    uint64_t threads_offset; /* of struct mallow_thread[max_threads] */
    uint64_t rings_offset;   /* of ring 0 */
    uint32_t max_threads;    /* as in control */
    uint32_t large_ring_words;
    uint32_t small_ring_words;
    uint32_t modules;        /* module entries in use; written with release order after the entry */
    uint32_t threads;        /* thread blocks ever used; written with release order after the block */
    uint32_t generation;     /* how often a module took the place of another; see MALLOW_OP_GENERATION */
    uint64_t unrecorded;     /* events that found no thread block or no memory for one: lost, but counted */
    uint32_t exit_state;     /* enum mallow_exit; a futex */
    uint32_t size_classes;   /* entries of usable_sizes in use; written with release order after them */
    uint32_t executable_len; /* bytes of path in text[] */
    uint32_t arguments_len;  /* bytes of NUL-separated arguments that follow it in text[] (cut to fit) */
    uint64_t sampling;       /* offset of struct mallow_sampling; 0: none */
    uint32_t held;           /* 1: the mapping of this file holds a lock on it; see below */
    uint32_t settings;       /* enum mallow_setting, or-ed: what the image's environment says */
    uint64_t exit_sp;        /* the thread that waits: below it its stack is dead, above are registers */
    uint64_t exit_thread;    /* its thread pointer: thread-local storage lies below */
    uint64_t
        exit_signals; /* its stack for signals (sigaltstack), which the kernel alone may know; 0: none, or not asked */
    /* What a request gets from an allocator that is not glibc's, ascending; found at the exit. */
    uint32_t usable_sizes[MALLOW_MAX_SIZE_CLASSES];
    uint64_t own; /* address of struct mallow_own in the image's memory */
    char text[3544];
};

/*
 * Memory of no file that the library has mapped for itself. The kernel joins it with its neighbours, so nothing else
 * says whose it is. A list lies in the image's private memory, where mallow reads it from outside: a forked child has
 * its own copy.
 */
#define MALLOW_OWN_RANGES 255u
#define MALLOW_OWN_SLOTS  1u /* or-ed to bytes: slots of samples, in which blocks of the program lie */

struct mallow_own_range {
    uint64_t start; /* 0: none */
    uint64_t bytes; /* whole pages; 0: under way */
};

struct mallow_own {
    uint64_t next; /* address of another list; 0: none */
    struct mallow_own_range range[MALLOW_OWN_RANGES];
};

#define MALLOW_MAX_MODULES   1024u
#define MALLOW_TABLE_WAIT_MS 2000u /* so long a target waits for one table */

enum mallow_module_status {
    MALLOW_MODULE_WANTED = 1,  /* mallow should make DIR/tables/KEY for it */
    MALLOW_MODULE_READY = 2,   /* the table exists; mallow writes this, then wakes status as a futex */
    MALLOW_MODULE_WITHOUT = 3, /* no table can be had; frame pointers are used */
    MALLOW_MODULE_LATE = 4,    /* the target waited in vain, or cannot read it, and writes this: stacks are cut there */
};

/*
 * One loaded ELF file. KEY, the name of its table, is the build-id in lower-case hexadecimal; a module without a
 * build-id has the key "P-I" (pid of the process and index of the module, in decimal).
 */
struct mallow_module {
    uint64_t start;        /* address of its first mapped page: link-time address base_svma in its table */
    uint64_t end;          /* past its last mapped page */
    uint32_t generation;   /* process generation from which on it is valid */
    uint32_t status;       /* enum mallow_module_status; a futex */
    uint32_t build_id_len; /* 0: none */
    uint32_t path_len;
    uint8_t build_id[32];
    char path[448]; /* as the dynamic linker names it; the executable's own is its /proc/self/exe; "[vdso]" */
};

/* Counters of counting mode, by the function that was called. FAMILIES in crates/profile has the same order. */
enum mallow_family {
    MALLOW_FAMILY_MALLOC,
    MALLOW_FAMILY_CALLOC,
    MALLOW_FAMILY_REALLOC,
    MALLOW_FAMILY_REALLOCARRAY,
    MALLOW_FAMILY_ALIGNED_ALLOC,
    MALLOW_FAMILY_MEMALIGN,
    MALLOW_FAMILY_POSIX_MEMALIGN,
    MALLOW_FAMILY_VALLOC,
    MALLOW_FAMILY_PVALLOC,
    MALLOW_FAMILY_COUNT
};

struct mallow_counter {
    uint64_t allocations; /* successful calls (realloc: with a new size above 0) */
    uint64_t bytes;       /* as requested */
};

enum mallow_owner {
    MALLOW_THREAD_FREE = 0,  /* another thread may take the block; its sums go on */
    MALLOW_THREAD_OWNED = 1, /* tid writes it, and nobody else */
};

/*
 * A thread's block. Only its owner writes the first and the third part, only mallow the second. Counters are sums over
 * all owners. head and tail count words since the ring began and never go back; head - tail <= words of the ring.
 */
struct mallow_thread {
    uint32_t owner; /* enum mallow_owner; taken by compare-and-swap */
    uint32_t tid;   /* the owner's, kept after its end */
    uint64_t head;  /* words written; release order */
    uint64_t lost;  /* events not written: nobody read, or there was no memory */
    /* Of its ring: a power of two, at most what the process file has room for. It may double while head < ring_words:
     * who reads it after head has the place of each word before that. */
    uint32_t ring_words;
    uint32_t owner_pad;
    uint64_t owner_pads[4];

    uint64_t tail;    /* words read by mallow; release order; low half is a futex */
    uint32_t waiting; /* not 0: the owner sleeps on tail; mallow clears it and wakes */
    uint32_t reader_pad[13];

    uint64_t frees;            /* calls of free on non-NULL */
    uint64_t realloc_frees;    /* releases implied by successful reallocs of non-NULL, and reallocs to 0 */
    uint64_t realloc_in_place; /* successful reallocs of non-NULL that returned the same address */
    uint64_t realloc_moved;    /* … another address */
    struct mallow_counter counter[MALLOW_FAMILY_COUNT];
    uint64_t counter_pad[2];
};

/* ---- samples ----------------------------------------------------------------------------------------------------
 *
 *   rings_offset        slots                ends                 stacks
 *   | mallow_sampling   | mallow_slot[]      | mallow_end[]       | mallow_stack, one behind the other |
 *
 * Each requested byte is picked with the same chance: an allocation of `size` bytes is a sample with the probability 1
 * - exp(-size / period), whatever came before it. A sample lives in a slot of a reserved range of addresses; slots and
 * entries of slots[] belong together for ever. slots[] holds the live samples at any moment: also for a mallow that
 * comes later, or after a crash. A sample that ends is written to ends[], as a whole, so that nothing of it is needed
 * but this.
 *
 * A sample that began and ended between two looks at slots[] is known from ends[] alone. Where ends[] ran full in
 * between, `number` shows how many are lost; live samples cannot be lost.
 */
/* Why an image samples nothing more, for good. What was sampled is followed to its end. */
enum mallow_over {
    MALLOW_OVER_NOT = 0,
    MALLOW_OVER_LEFT = 1,    /* a signal handler left the work on a sample by longjmp */
    MALLOW_OVER_FILTER = 2,  /* a filter of system calls forbids what samples need */
    MALLOW_OVER_FOREIGN = 3, /* blocks of malloc are given to functions that Mallow does not see */
};

/* How an image ended. One that was killed says nothing. */
enum mallow_ending {
    MALLOW_ENDING_NONE = 0,    /* it goes on, was killed, or became a program that Mallow does not see */
    MALLOW_ENDING_EXIT = 1,    /* it runs its last destructors */
    MALLOW_ENDING_AT_ONCE = 2, /* _exit, quick_exit or exit_group */
    MALLOW_ENDING_EXEC = 3,    /* another image took its place, and says so */
};

struct mallow_sampling {
    uint64_t slots_offset;  /* of struct mallow_slot[max_slots] */
    uint64_t ends_offset;   /* of struct mallow_end[max_ends] */
    uint64_t stacks_offset; /* of the store of stacks */
    uint64_t stacks_bytes;  /* its size */
    uint32_t max_slots;
    uint32_t max_ends; /* a power of two */
    uint32_t exited;   /* enum mallow_ending */
    uint32_t over;     /* enum mallow_over */
    uint64_t guard;    /* offset of struct mallow_guard; 0: nothing is guarded */
    uint32_t pad[2];
    /* Written from here on. Each number only grows, but for mode and period. */
    uint32_t mode;        /* that a thread saw last */
    uint32_t slots;       /* entries of slots[] ever used; release order */
    uint64_t period;      /* that a thread saw last */
    uint64_t stacks_used; /* bytes of the store; release order, after the stack */
    uint64_t begun;       /* samples that ever began here, without those that a fork inherited */
    uint64_t ended;       /* entries ever written to ends[]; release order, after the entry */
    /* What could not be recorded: the allocation was served by the underlying allocator, or has no stack. */
    uint64_t without_slot;  /* picked, but there was no slot for it, or no memory */
    uint64_t without_stack; /* samples and ends whose stack found no room in the store */
    uint64_t missed; /* picked inside of Mallow's own work, in a signal handler: served by the underlying allocator */
};

enum mallow_slot_state {
    MALLOW_SLOT_FREE = 0,
    MALLOW_SLOT_BUSY = 1, /* under way: look again, or skip it */
    MALLOW_SLOT_LIVE = 2,
};

enum mallow_sample_flag {
    MALLOW_SAMPLE_INHERITED = 1, /* the parent allocated it, before the fork: it is in the parent's file as well */
};

/*
 * state is sequence & 3; sequence >> 2 is the generation, one more with each sample that begins here. To read: sequence
 * (acquire), the rest, a fence, sequence again: where both are the same and LIVE, the rest belongs together.
 */
struct mallow_slot {
    uint64_t sequence;
    uint64_t address;  /* of the block */
    uint64_t size;     /* as requested */
    uint64_t began_ns; /* CLOCK_MONOTONIC, as exact as CLOCK_MONOTONIC_COARSE */
    uint32_t period;   /* that it was picked with */
    uint32_t tid;      /* of the thread that allocated it */
    uint32_t stack;    /* of the allocation; 0: none */
    uint8_t family;    /* enum mallow_family */
    uint8_t flags;     /* enum mallow_sample_flag, or-ed */
    uint8_t pad[2];
    uint64_t id; /* from 1 on, one more with each sample of the process; an inherited one has its parent's */
    uint64_t reserved;
};

enum mallow_end_kind {
    MALLOW_END_FREED = 1,
    MALLOW_END_REALLOCATED = 2, /* realloc gave it another size: what came of it is another allocation */
};

/* To read: number (acquire), the rest, a fence, number again. */
struct mallow_end {
    uint64_t number;           /* from 1 on; entry number n is ends[(n - 1) % max_ends]; 0: being written */
    struct mallow_slot sample; /* as it was; its sequence is that of the live sample */
    uint64_t ended_ns;
    uint64_t moved_to; /* REALLOCATED: the new address */
    uint32_t tid;      /* of the thread that ended it */
    uint32_t stack;    /* of the call that ended it; 0: none */
    uint32_t slot;     /* index in slots[] */
    uint32_t kind;     /* enum mallow_end_kind */
    uint64_t pad[3];
};

/* A stack is named by its offset in the store, in units of 8 bytes; 0 names none, and the store's first 8 bytes are
 * unused. Stacks are never changed once they are counted in stacks_used, and equal ones are stored once. */
struct mallow_stack {
    uint64_t hash;
    uint32_t depth;      /* return addresses: 1 … max_depth of the control page */
    uint32_t generation; /* process generation: the modules that the addresses belong to */
    uint32_t flags;      /* MALLOW_FLAG_CUT: frames nearer to the root are missing */
    uint32_t pad;
    uint64_t pc[]; /* nearest to the root first; EXACT_PC as in STACK records */
};

/* ---- results of measured regions ---- */

#define MALLOW_RESULT_MAGIC 0x524c414du /* "MALR" */

enum mallow_result_kind {
    MALLOW_RESULT_BEGUN = 1,   /* a run began; without a WARMUP or RUN of its number it did not end */
    MALLOW_RESULT_WARMUP = 2,  /* what a run counted that came first */
    MALLOW_RESULT_RUN = 3,     /* what a measured run counted */
    MALLOW_RESULT_CHECK = 4,   /* what the known calls counted that each image makes at its start */
    MALLOW_RESULT_PLANTED = 5, /* the same with one allocation more */
};

enum mallow_result_flag {
    MALLOW_RESULT_THIS_THREAD = 1, /* of the calling thread alone */
    MALLOW_RESULT_RESTLESS = 2,    /* other threads still allocated after quiet_ms */
    MALLOW_RESULT_NAME_CUT = 4,
};

/* One append: records of several threads and processes do not mix. */
struct mallow_result {
    uint32_t magic; /* MALLOW_RESULT_MAGIC */
    uint32_t kind;  /* enum mallow_result_kind */
    uint32_t pid;
    uint32_t tid;
    uint32_t flags;      /* enum mallow_result_flag, or-ed */
    uint32_t run;        /* within one call of mallow_measure, warm-ups and runs each from 0 */
    uint32_t number;     /* of the region's run among those of all processes, from 1 */
    uint32_t name_len;   /* bytes of name */
    uint64_t operations; /* performed; 0: unknown */
    uint64_t allocations;
    uint64_t bytes;
    uint64_t frees; /* of all kinds */
    uint64_t reallocs_in_place;
    uint64_t reallocs_moved;
    uint64_t unrecorded;        /* calls that could not be counted */
    int32_t descriptors_before; /* open ones; below 0: not known */
    int32_t descriptors_after;
    uint64_t reserved[4];
    char name[128];
};

/* What a CHECK counts; a PLANTED one has one allocation, one byte and one free more. */
#define MALLOW_CHECK_ALLOCATIONS 4u
#define MALLOW_CHECK_BYTES       (24u + 48u + 4096u + 200u)

/* ---- events -----------------------------------------------------------------------------------------------------
 *
 * A ring is a sequence of 8-byte words. Each record begins with a head word:
 *
 *    63      56 55      48 47                                               0
 *   +----------+----------+--------------------------------------------------+
 *   |    op    |  flags   | argument (an address, unless the op says other)  |
 *   +----------+----------+--------------------------------------------------+
 *
 * op                 further words
 * ALLOC + family     [size:40 | stack:24]; with flag WIDE_SIZE: [size:64] [stack:24]; with flag SAME: none, size and
 *                    stack are those of the record before it that brought them in one word, in this ring
 * FREE               none
 * REALLOC_BEGIN      none. argument: the old block. Written before the real call: from here on another thread may own
 *                    the address. The same ring goes on with REALLOC_DONE, REALLOC_FREED or REALLOC_FAILED.
 * REALLOC_DONE       as ALLOC, argument: the new address. flag REALLOCARRAY gives the family
 * REALLOC_FREED      none. realloc(p, 0) that returned NULL: a free of the old block
 * REALLOC_FAILED     none. The old block is as before
 * STACK              argument: [keep:16 in bits 32..47 | new:16 in bits 0..15]; then `new` return addresses, the one
 *                    nearest to the root first. It defines the next stack number of this ring (the first is 0): the
 *                    `keep` frames nearest to the root of the stack that this ring defined or used last, then the new
 *                    ones. flag CUT: frames nearer to the root are missing. A return address of a signal frame's
 *                    interrupted function is exact, and so is one that an await resumes: it has EXACT_PC (bit 63) set.
 * TIME               argument: milliseconds since the recording began; written when the epoch has changed
 * ORDER              argument: the next number of the process. The next event of the ring happened when the number was
 *                    taken, and those after it until the ring's next ORDER happened later: after all events before a
 *                    lower number, and before each event that has a higher number than the ring's next one. A thread
 *                    that finds its own number to be the last one takes no new one, and may write it again: then what
 *                    it did since the number was taken, and the ring's next event, happened before the next number.
 *                    flags: so many words before this record it looked last and found that; 0: not known. None in a
 *                    process with one thread
 * THREAD             argument: tid of the thread that owns the ring from here on. flag AGAIN: it has given a ring back
 *                    already, since that is done before the C library is through with a thread that ends
 * GENERATION         argument: process generation; addresses in STACK records that follow refer to the modules valid in
 *                    it. Stack numbers of the ring begin again at 0, and so does "the stack used last" (none: keep =
 *                    0). No record after it has SAME before one has brought size and stack
 * REGION             argument: number of a measured region's run << 1, plus 1 at its end. It begins or ends here: for
 *                    all rings, or with flag THIS_THREAD for this one alone. For all rings, what was written before was
 *                    read before this record was written, and what follows is written after this was read
 * LOST               argument: events that this ring could not write here
 * PAD                the rest of the ring up to its end is unused; the next record is at its start
 *
 * No record runs across the end of the ring. Order between rings: a record is published before any event that depends
 * on it can be published by another thread (an allocation after the allocator returned and before the caller sees the
 * address; a free before the allocator is called).
 */
/* Words between two looks for the next ORDER number at the most, or a few more. */
#define MALLOW_ORDER_WORDS 96u
/* The flags of ORDER go that far. */
#define MALLOW_SINCE_MOST 255u

enum mallow_op {
    MALLOW_OP_PAD = 1,
    MALLOW_OP_TIME = 2,
    MALLOW_OP_THREAD = 3,
    MALLOW_OP_GENERATION = 4,
    MALLOW_OP_LOST = 5,
    MALLOW_OP_STACK = 6,
    MALLOW_OP_FREE = 7,
    MALLOW_OP_REALLOC_BEGIN = 8,
    MALLOW_OP_REALLOC_DONE = 9,
    MALLOW_OP_REALLOC_FREED = 10,
    MALLOW_OP_REALLOC_FAILED = 11,
    MALLOW_OP_ORDER = 12,
    MALLOW_OP_REGION = 13,
    MALLOW_OP_ALLOC = 16, /* + enum mallow_family */
};

enum mallow_event_flag {
    MALLOW_FLAG_WIDE_SIZE = 1,
    MALLOW_FLAG_REALLOCARRAY = 2,
    MALLOW_FLAG_CUT = 4,
    MALLOW_FLAG_THIS_THREAD = 8,
    MALLOW_FLAG_SAME = 16,
    MALLOW_FLAG_AGAIN = 32,
};

#define MALLOW_SIZE_BITS  40
#define MALLOW_STACK_BITS 24
#define MALLOW_EXACT_PC   (1ull << 63)
/* Depth limit of the wire: keep and new have 16 bits. */
#define MALLOW_DEPTH_LIMIT 4096u

/* ---- unwind tables ----------------------------------------------------------------------------------------------
 *
 *   | mallow_table | uint32_t pc[rows] | uint16_t quick[rows] | pad | uint32_t full[rows] | mallow_rule rules[] |
 *
 * pc[] is sorted; row i covers the link-time addresses base_svma + [pc[i], pc[i+1]). Gaps are rows with quick NONE;
 * row 0 has pc 0. full[i] is the index of row i's whole rule: only rare walks touch it.
 *
 * quick and rules are the processor's: arch/x86_64/rule.h.
 */
struct mallow_table {
    uint32_t magic;   /* MALLOW_TABLE_MAGIC */
    uint32_t version; /* MALLOW_WIRE_VERSION */
    uint32_t rows;
    uint32_t rules;
    uint64_t base_svma; /* link-time address of the module's first mapped page */
    uint64_t quick_offset;
    uint64_t full_offset;
    uint64_t rules_offset;
    uint64_t file_bytes;
    uint64_t reserved;
};

_Static_assert(sizeof(struct mallow_control) == 3400, "control layout");
_Static_assert(sizeof(struct mallow_process) == 4096, "process header is a page");
_Static_assert(sizeof(struct mallow_own) == 4088, "a list of ranges is a page at most");
_Static_assert(sizeof(struct mallow_module) == 512, "module layout");
_Static_assert(sizeof(struct mallow_thread) == 320, "thread layout: whole cache lines");
_Static_assert(sizeof(struct mallow_sampling) == 128, "sampling layout: two cache lines");
_Static_assert(sizeof(struct mallow_slot) == 64, "slot layout: a cache line");
_Static_assert(sizeof(struct mallow_end) == 128, "end layout: two cache lines");
_Static_assert(sizeof(struct mallow_stack) == 24, "stack layout");
_Static_assert(sizeof(struct mallow_table) == 64, "table header layout");

#endif

/*
 * Guarded slots, in a process file of sampling mode.
 *
 * One range of addresses, registered with a userfaultfd that mallow's keeper holds. Pages that the keeper has not
 * filled are missing: an access stops its thread in the kernel, and the keeper hears of it. The range has
 * MALLOW_GUARD_SIZES areas of the same size; slots of area k have 2^k pages, and the block has fewer.
 *
 * A slot is of use once it is *ready*: its block's pages are filled. The target asks for that through a ring for each
 * number of pages (supply), takes what is done, and waits for nobody but at the limits that docs/design/guard.md has.
 */
#ifndef MALLOW_WIRE_GUARD_H
#define MALLOW_WIRE_GUARD_H

#include <stdint.h>

#define MALLOW_GUARD_SIZES    16u
#define MALLOW_SUPPLIES       9u   /* rings for blocks of 1 … 8 pages, and one for larger ones */
#define MALLOW_SUPPLY_SLOTS   256u /* of a ring */
#define MALLOW_GUARD_FINDINGS 64u
#define MALLOW_GUARD_FAULTS   16u
#define MALLOW_GUARD_PATTERN  0xa5u /* fills what a block's pages have beside the block */

enum mallow_guard_place {
    MALLOW_PLACE_END = 0,   /* a block ends where the next page is missing */
    MALLOW_PLACE_BEGIN = 1, /* it begins where the page before is */
    MALLOW_PLACE_RANDOM = 2,
};

enum mallow_guard_state {
    MALLOW_GUARD_NOT = 0,
    MALLOW_GUARD_OFFERED = 1,  /* descriptor is to be taken; a futex */
    MALLOW_GUARD_TAKEN = 2,    /* written by the keeper: the range is registered */
    MALLOW_GUARD_REFUSED = 3,  /* the kernel refused: `descriptor` has the error's number */
    MALLOW_GUARD_FILTERED = 4, /* a filter of system calls of the program's own might punish the call */
    MALLOW_GUARD_GIVEN_UP = 5, /* the keeper did not answer */
    MALLOW_GUARD_NO_ADDRESSES = 6,
    MALLOW_GUARD_PROTECTS = 7, /* the kernel refused, and a signal handler may take its place; a futex */
    MALLOW_GUARD_HANDLED = 8,  /* written by the keeper: it answers the handler */
};

/*
 * Pages of a slot that is ready that hold MALLOW_GUARD_PATTERN. The others hold zeros. A slot of one page has a first
 * one only.
 */
enum mallow_patterned {
    MALLOW_PATTERNED_FIRST = 1,
    MALLOW_PATTERNED_LAST = 2,
};

/* A slot that is to be made ready. */
struct mallow_ready {
    uint64_t address;
    uint32_t pages;
    uint32_t patterned; /* written by the keeper, before `done`: enum mallow_patterned, or-ed */
};

struct mallow_supply {
    uint32_t asked; /* entries written by the target; release order */
    uint32_t done;  /* entries served by the keeper; release order; a futex */
    struct mallow_ready ready[MALLOW_SUPPLY_SLOTS];
};

/* Errors that the target finds itself. The numbers go on in crates/capture/src/guard/finding.rs. */
enum mallow_guard_error {
    MALLOW_ERROR_DOUBLE_FREE = 1,
    MALLOW_ERROR_INTERIOR = 2, /* free of an address inside of a block */
    MALLOW_ERROR_FOREIGN = 3,  /* free of an address that no allocator returned */
    MALLOW_ERROR_SLACK = 4,    /* a write beside the block, within its pages: found at the free, or at the exit */
    MALLOW_ERROR_MISMATCH = 5, /* free by an operation that does not belong to the block's allocation */
};

/* What allocated a block. */
enum mallow_operation {
    MALLOW_OPERATION_UNKNOWN = 0,      /* nothing is compared with its free */
    MALLOW_OPERATION_MALLOC = 1,       /* the function of the block's family */
    MALLOW_OPERATION_MALLOC_MAYBE = 2, /* or an operator new that is no symbol, and calls that function */
    MALLOW_OPERATION_NEW = 3,
    MALLOW_OPERATION_NEW_ARRAY = 4,
    MALLOW_OPERATION_NEW_EITHER = 5, /* the C++ runtime called operator new itself, for an array perhaps */
};

/* What frees one. */
enum mallow_freeing {
    MALLOW_FREEING_UNKNOWN = 0,
    MALLOW_FREEING_FREE = 1,
    MALLOW_FREEING_REALLOC = 2,
    MALLOW_FREEING_DELETE = 3,
    MALLOW_FREEING_DELETE_ARRAY = 4,
};

/* Whether an image's operators new and delete are seen. */
enum mallow_operators {
    MALLOW_OPERATORS_NONE = 0, /* no library defined operator new when the image began */
    MALLOW_OPERATORS_SEEN = 1,
    MALLOW_OPERATORS_REPLACED = 2, /* others than those of libstdc++ serve, some at least */
    MALLOW_OPERATORS_UNFIT = 3,    /* those of libstdc++ cannot be replaced */
};

/* Of MALLOW_ERROR_FOREIGN: where the address is, as far as the target knows. */
enum mallow_foreign {
    MALLOW_FOREIGN_NOT = 0, /* it may be a block */
    MALLOW_FOREIGN_STACK = 1,
    MALLOW_FOREIGN_MODULE = 2,
    MALLOW_FOREIGN_UNMAPPED = 3,
    MALLOW_FOREIGN_MAPPED = 4, /* other memory, and no header of a block is before it */
};

struct mallow_guard_finding {
    uint64_t address; /* that was freed, or the first damaged byte */
    uint64_t at_ns;
    uint32_t kind; /* enum mallow_guard_error */
    uint32_t tid;
    uint32_t stack;    /* of the call; 0: none */
    uint32_t slot;     /* index in slots[]; UINT32_MAX: none */
    uint8_t bytes[16]; /* that were found there; of MALLOW_ERROR_FOREIGN the stack pointer of the call, 8 bytes, and
                           enum mallow_foreign, 1 byte; of MALLOW_ERROR_MISMATCH the size of a sized operator delete,
                           8 bytes, then a byte each: 1 if there is such a size, enum mallow_operation, enum
                           mallow_freeing, and the alignments that operator new and operator delete were called with:
                           log2 + 1, 0: none */
};

/* The low bits of mallow_guard_fault.state; those above number who asks. */
enum mallow_fault_state {
    MALLOW_FAULT_STATE = 7, /* a mask */
    MALLOW_FAULT_NONE = 0,
    MALLOW_FAULT_WRITTEN = 1,  /* a thread of the target has it */
    MALLOW_FAULT_ASKS = 2,     /* release order: its thread waits in the signal handler */
    MALLOW_FAULT_ANSWERED = 3, /* written by the keeper: it goes on */
    MALLOW_FAULT_ENDS = 4,     /* written by the keeper: the program is to end with these registers */
};

/* MALLOW_GUARD_HANDLED: an access to a protected page. */
struct mallow_guard_fault {
    uint32_t state; /* enum mallow_fault_state, and a number; a futex */
    uint32_t tid;
    uint64_t address;
    uint64_t
        registers;  /* address of the interrupted registers, as the kernel saved them: mcontext_t's gregs on x86-64 */
    uint32_t write; /* 1: it was a write */
    uint32_t unused;
};

enum mallow_crash_state {
    MALLOW_CRASH_NONE = 0,
    MALLOW_CRASH_WRITTEN = 1,  /* a thread of the target has it */
    MALLOW_CRASH_ASKS = 2,     /* release order: its thread waits in the signal handler, if it may */
    MALLOW_CRASH_ANSWERED = 3, /* written by the keeper: the program ends */
};

#define MALLOW_CRASH_REGISTERS 17u

/* A signal that ends the image, before it does. */
struct mallow_guard_crash {
    uint32_t state; /* enum mallow_crash_state; a futex */
    uint32_t tid;
    uint32_t signal;
    int32_t code;     /* si_code */
    uint32_t sender;  /* si_pid, where a process sent it */
    uint32_t access;  /* of a page fault: 1 a read, 2 a write, 3 an instruction; 0: none */
    uint64_t address; /* si_addr, where the processor raised it */
    uint64_t at_ns;
    uint64_t registers[MALLOW_CRASH_REGISTERS]; /* as the kernel saved them: on x86-64 gregs from r8 to rip */
};

/* Of slots[] with the same index. */
struct mallow_guarded {
    uint64_t start; /* of its pages; 0: the slot is not guarded */
    uint64_t freed_ns;
    uint32_t free_tid;   /* of a live block: the thread whose system call was given bytes behind it, during its check */
    uint32_t free_stack; /* 0: none; of a live block with free_tid: the first of these bytes, from the block's end on */
    uint16_t pages;      /* of its block */
    uint8_t operation;   /* enum mallow_operation */
    uint8_t unused;
    uint32_t touched; /* written by the keeper: pages were filled to let a thread go on */
};

struct mallow_guard {
    uint32_t state; /* enum mallow_guard_state; a futex */
    int32_t descriptor;
    uint32_t keeper;             /* whom the state concerns: its pid; 0: none. Release order, after the state */
    uint32_t beat;               /* the keeper adds 1 again and again while it serves this image */
    uint64_t start, bytes;       /* of the range */
    uint64_t guarded_offset;     /* of struct mallow_guarded[max_slots] */
    uint64_t guarded;            /* allocations that were */
    uint64_t unguarded;          /* … and were to be: no slot was ready, or the limit of memory was reached */
    uint64_t unfit;              /* … not to be: larger or more aligned than any slot */
    uint32_t wanted;             /* a futex: the target adds 1 and wakes it when it asks, or found something */
    uint32_t findings;           /* ever written; release order: number n is finding[n % MALLOW_GUARD_FINDINGS] */
    uint64_t slots, slots_bytes; /* memory of Mallow's own that has the address of each live block */
    struct mallow_supply supply[MALLOW_SUPPLIES];
    struct mallow_guard_finding finding[MALLOW_GUARD_FINDINGS];
    struct mallow_guard_fault fault[MALLOW_GUARD_FAULTS];
    struct mallow_guard_crash crash;
    uint32_t operators;  /* enum mallow_operators */
    uint32_t uncompared; /* frees by another operation than the block's, where operators may be no symbols */
};

_Static_assert(sizeof(struct mallow_guard_fault) == 32, "fault layout");
_Static_assert(sizeof(struct mallow_guard_crash) == 176, "crash layout");
_Static_assert(sizeof(struct mallow_guarded) == 32, "guarded layout: half a cache line");

#endif

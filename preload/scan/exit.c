/*
 * The end of a traced image: it waits while mallow reads its memory, to see which live blocks nothing points to any
 * more, and which pages it has.
 *
 * With glibc that is after the program's exit handlers, its static destructors and those of all libraries, as valgrind
 * looks: what a library keeps in a container that its destructor has freed is lost. musl takes no handler that late:
 * there, what libraries free after this one is still live.
 */
#include "arch.h"
#include "base/exit_point.h"
#include "base/filter.h"
#include "base/reader.h"
#include "base/real.h"
#include "base/target.h"
#include "scan/arguments.h"

#define WAIT_MS 20
/* Mallow gives up long before this. */
#define LONGEST_NS (60ull * 1000000000)

/* Not inlined: where exit is not found, its frame is the border: above are the registers of the caller. */
NOINLINE static void wait_for_scan(struct mallow_process *process) {
    struct patience patience = {0};
    /* The coarse clock needs no system call, which a filter could forbid. */
    uint64_t until_ns = sys_tick_ns() + LONGEST_NS;
    exit_point_set(process, __builtin_frame_address(0));
    __atomic_store_n(&process->exit_state, MALLOW_EXIT_WAITS, __ATOMIC_SEQ_CST);
    doorbell_ring();
    while (__atomic_load_n(&process->exit_state, __ATOMIC_ACQUIRE) == MALLOW_EXIT_WAITS &&
           __atomic_load_n(&process->state, __ATOMIC_RELAXED) != MALLOW_PROCESS_CLOSED && sys_tick_ns() < until_ns &&
           reader_wait(&patience, &process->exit_state, MALLOW_EXIT_WAITS, WAIT_MS))
        ;
    /* Mallow may answer at this moment. */
    uint32_t waits = MALLOW_EXIT_WAITS;
    __atomic_compare_exchange_n(&process->exit_state, &waits, MALLOW_EXIT_GAVE_UP, 0, __ATOMIC_ACQ_REL,
                                __ATOMIC_RELAXED);
}

/* Requests up to this are tried, of an allocator whose sizes no formula has. */
#define TRIED_MOST ((size_t)1 << 16)

/* What the allocator gives for requests: a request that is 1 above the usable size of a block is of the next size
 * class. After the wait, so that mallow has read what memory the program has without these blocks. */
static void find_size_classes(struct mallow_process *process) {
    uint32_t classes = 0;
    size_t usable = 0;
    while (usable < TRIED_MOST && classes < MALLOW_MAX_SIZE_CLASSES) {
        size_t last = usable;
        void *block = real.malloc(last + 1);
        if (block == NULL)
            break;
        usable = real.malloc_usable_size(block);
        real.free(block);
        /* One that says less than it was asked for, or the same for more, says nothing. */
        if (usable <= last || usable > UINT32_MAX)
            break;
        process->usable_sizes[classes++] = (uint32_t)usable;
    }
    __atomic_store_n(&process->size_classes, classes, __ATOMIC_RELEASE);
}

/* A forked child has blocks of its parent, and mallow does not know which: it would wait for little. */
static int is_wanted(const struct mallow_control *control, const struct mallow_process *process) {
    uint32_t flags = control->flags;
    return (flags & (MALLOW_SCAN | MALLOW_MEMORY)) != 0 &&
           (process->origin != MALLOW_ORIGIN_FORK || (flags & MALLOW_SCAN_FORKED) != 0);
}

static void image_ends(void *no_block) {
    const struct mallow_control *control = target.control;
    struct mallow_process *process = target.process;
    (void)no_block;
    if (target_is_stopped()) {
        /* The blocks that are live are not all known. */
        if (!target.over && is_wanted(control, process))
            __atomic_store_n(&process->exit_state, MALLOW_EXIT_GAVE_UP, __ATOMIC_RELEASE);
        return;
    }
    if (control->mode == MALLOW_MODE_TRACE && (control->flags & MALLOW_NO_ARGUMENTS) == 0)
        arguments_note(process);
    if (!is_wanted(control, process))
        return;
    if (filter_is(FILTER_FORBIDS_WAITS)) {
        __atomic_store_n(&process->exit_state, MALLOW_EXIT_SANDBOXED, __ATOMIC_RELEASE);
        return;
    }
    /* Pointers that are in registers alone are to be on the stack. */
    __builtin_unwind_init();
    wait_for_scan(process);
    /* A filter was made for what the program does, and its allocator may yet need a system call. */
    if ((control->flags & MALLOW_MEMORY) != 0 && real_sizes == REAL_SIZES_BY_CALL && !filter_is(FILTER_SEEN))
        find_size_classes(process);
}

extern const char *gnu_get_libc_version(void) __attribute__((weak));
extern int __cxa_atexit(void (*function)(void *), void *argument, void *library) __attribute__((weak));

/*
 * glibc's last exit handler calls the destructors of all libraries, this one wherever it comes in their order. A
 * handler that is registered meanwhile is called after that one. It takes the room that handlers of before have left;
 * one that is registered at the start could be the program's 33rd, for which glibc allocates.
 */
__attribute__((destructor)) static void image_exits(void) {
    if (target.control == NULL || target.process == NULL || image_alive == 0)
        return;
    if (gnu_get_libc_version == NULL || __cxa_atexit == NULL || __cxa_atexit(image_ends, NULL, NULL) != 0)
        image_ends(NULL);
}

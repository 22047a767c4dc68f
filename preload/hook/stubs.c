/*
 * Stubs: where a patched function of an allocator leads. Each calls the function by its trampoline and reports to the
 * policy what it did. It runs in the place of the function: its return address is the caller's, so stacks begin at the
 * caller.
 *
 * One stub serves all functions that have their arguments in the same places. What differs is in struct mallow_hook,
 * whose address comes as the sixth argument: none of these functions has more than five, all of them words.
 *
 * Allocators call their own functions: only the outermost call is reported. A stub notes its frame while the allocator
 * runs; a call of the same module from deeper on the same stack is part of it.
 */
#include "hook/stubs.h"
#include "arch.h"
#include "base/entries.h"
#include "base/target.h"

#include <string.h>

/* The frame of the stub whose allocator runs; 0: none. */
static _Thread_local uint64_t outermost __attribute__((tls_model("initial-exec")));

/*
 * An allocator needs less stack than this. A call from further away is on another stack: a coroutine's, or a handler's.
 */
#define DEEPEST (1ul << 20)

/* Whether the stub at `frame` was called from deeper on the stack of the one at `outer`. */
static inline int is_within(uint64_t outer, const struct arch_frame *frame) {
    return outer - (uint64_t)frame - 1 < DEEPEST; /* neither 0, nor further out */
}

/* Whether the call comes from the allocator itself, while one of its functions runs. What the C library or the C++
 * runtime allocates meanwhile, as an exception, is a block of its own: it is freed by a call that counts. */
static inline int is_inner(uint64_t outer, const struct arch_frame *frame, const struct mallow_hook *hook) {
    return (is_within(outer, frame) || hook->library) && is_called_within(frame->return_address, hook);
}

static inline void leave(uint64_t before) {
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    outermost = before;
}

/*
 * An exception leaves a stub: operator new throws. The unwinder calls this for the stub's frame (Itanium C++ ABI, level
 * 1); it goes on at once, so that nothing of a C++ runtime is needed.
 */
enum { CLEANUP_PHASE = 2, CONTINUE_UNWIND = 8 };

__attribute__((used)) HIDDEN int stub_unwinds(int version, int actions, uint64_t kind, void *exception, void *context) {
    (void)version;
    (void)kind;
    (void)exception;
    (void)context;
    if ((actions & CLEANUP_PHASE) != 0)
        outermost = 0;
    return CONTINUE_UNWIND;
}

/* In each stub: the unwinder finds stub_unwinds by a relative address of 32 bits. */
#define UNWINDS __asm__ volatile(".cfi_personality 0x1b, stub_unwinds")

/* At the begin of each stub. `before` is what leave() restores: not 0 only where the call of another module comes
 * while the allocator runs. Nearly all calls find 0. */
#define ENTER                                                                                                          \
    UNWINDS;                                                                                                           \
    uint64_t before = outermost;                                                                                       \
    if (UNLIKELY((before | hook->library) != 0)) {                                                                     \
        if (is_inner(before, FRAME, hook))                                                                             \
            return CALL;                                                                                               \
        before = is_within(before, FRAME) ? before : 0;                                                                \
    }                                                                                                                  \
    outermost = (uint64_t)FRAME;                                                                                       \
    __atomic_signal_fence(__ATOMIC_SEQ_CST)

/* NULL: nothing is recorded. The recording may end at any moment, also while the allocator runs. */
static inline const struct hooked_policy *recorder(void) {
    return __atomic_load_n(&policy.hooked, __ATOMIC_RELAXED);
}

static inline struct hooked_call call_of(void *old, size_t size, const struct mallow_hook *hook,
                                         const struct arch_frame *frame) {
    return (struct hooked_call){
        .old = old, .size = size, .family = hook->family, .usable = (usable_size *)hook->usable, .frame = frame};
}

/* Counting is done in place, as in entries.c: a call costs more. */
static inline void report_allocated(void *block, size_t size, const struct mallow_hook *hook,
                                    const struct arch_frame *frame) {
    if (UNLIKELY(block == NULL))
        return;
    struct mallow_thread *mine = counting_block();
    const struct hooked_policy *to;
    if (mine != NULL) {
        count_allocation(mine, hook->family, size);
    } else if ((to = recorder()) != NULL) {
        struct hooked_call call = call_of(NULL, size, hook, frame);
        call.block = block;
        to->allocated(&call);
    }
}

#define ALLOCATING(name, size)                                                                                         \
    static word name(PARAMETERS) {                                                                                     \
        ENTER;                                                                                                         \
        word block = CALL;                                                                                             \
        leave(before);                                                                                                 \
        report_allocated((void *)block, size, hook, FRAME);                                                            \
        return block;                                                                                                  \
    }

/* A product that overflows gives no block. */
ALLOCATING(allocate, a)
ALLOCATING(allocate_second, b)
ALLOCATING(allocate_count, a *b)
ALLOCATING(allocate_count_second, b *c)
ALLOCATING(allocate_text, block != 0 ? strlen((const char *)block) + 1 : 0)

static word allocate_result(PARAMETERS) {
    ENTER;
    word error = CALL;
    leave(before);
    if ((int)error == 0)
        report_allocated(*(void **)a, c, hook, FRAME);
    return error;
}

static word release(PARAMETERS) {
    ENTER;
    struct mallow_thread *mine = counting_block();
    const struct hooked_policy *to;
    if (UNLIKELY(a == 0)) {
        /* nothing is freed */
    } else if (mine != NULL) {
        mine->frees++;
    } else if ((to = recorder()) != NULL) {
        struct hooked_call call = call_of((void *)a, 0, hook, FRAME);
        to->freed(&call);
    }
    word result = CALL; /* some report whether it was freed */
    leave(before);
    return result;
}

/* `failed`: by the result; `where`: the block afterwards. */
#define REALLOCATING(name, given, bytes, failed, where)                                                                \
    static word name(PARAMETERS) {                                                                                     \
        ENTER;                                                                                                         \
        const struct arch_frame *frame = FRAME;                                                                        \
        const struct hooked_policy *to = recorder();                                                                   \
        struct hooked_call call = call_of((void *)(given), bytes, hook, frame);                                        \
        if (given != 0 && to != NULL && to->reallocating != NULL)                                                      \
            to->reallocating(&call);                                                                                   \
        word result = CALL;                                                                                            \
        leave(before);                                                                                                 \
        call.block = (failed) ? NULL : (void *)(where);                                                                \
        if (given == 0)                                                                                                \
            report_allocated((void *)result, bytes, hook, frame);                                                      \
        else if (to != NULL)                                                                                           \
            to->reallocated(&call);                                                                                    \
        return result;                                                                                                 \
    }

REALLOCATING(reallocate, a, b, result == 0, result)
REALLOCATING(reallocate_second, b, c, result == 0, result)
REALLOCATING(reallocate_count, a, b *c, result == 0, result)
REALLOCATING(reallocate_count_second, b, c *d, result == 0, result)
REALLOCATING(reallocate_fourth, a, d, result == 0, result)
/* Where these fail, the block is as it was, whatever the size. */
REALLOCATING(resize, a, (b != 0 ? b : 1), result < b, a)
REALLOCATING(expand, a, (b != 0 ? b : 1), result == 0, a)

void stubs_list(uint64_t out[MALLOW_STUB_COUNT]) {
    static const uint64_t all[MALLOW_STUB_COUNT] = {
        [MALLOW_STUB_ALLOCATE] = (uint64_t)allocate,
        [MALLOW_STUB_ALLOCATE_SECOND] = (uint64_t)allocate_second,
        [MALLOW_STUB_ALLOCATE_COUNT] = (uint64_t)allocate_count,
        [MALLOW_STUB_ALLOCATE_COUNT_SECOND] = (uint64_t)allocate_count_second,
        [MALLOW_STUB_ALLOCATE_TEXT] = (uint64_t)allocate_text,
        [MALLOW_STUB_ALLOCATE_RESULT] = (uint64_t)allocate_result,
        [MALLOW_STUB_FREE] = (uint64_t)release,
        [MALLOW_STUB_REALLOCATE] = (uint64_t)reallocate,
        [MALLOW_STUB_REALLOCATE_SECOND] = (uint64_t)reallocate_second,
        [MALLOW_STUB_REALLOCATE_COUNT] = (uint64_t)reallocate_count,
        [MALLOW_STUB_REALLOCATE_COUNT_SECOND] = (uint64_t)reallocate_count_second,
        [MALLOW_STUB_REALLOCATE_FOURTH] = (uint64_t)reallocate_fourth,
        [MALLOW_STUB_RESIZE] = (uint64_t)resize,
        [MALLOW_STUB_EXPAND] = (uint64_t)expand,
        [MALLOW_STUB_NEW] = (uint64_t)operator_new,
        [MALLOW_STUB_NEW_ALIGNED] = (uint64_t)operator_new_aligned,
        [MALLOW_STUB_DELETE] = (uint64_t)operator_delete,
    };
    memcpy(out, all, sizeof all);
}

/*
 * A preloadable library that compares the unwinder's stacks with those of libgcc, frame by frame, in a real program.
 *
 * It interposes malloc, calloc, realloc and free of glibc and walks at every allocation, so that the unwinder's memory
 * of the last stack is at work as in a recording; every Nth stack is compared. Results go to a shared file, so that
 * processes that end without running destructors count too.
 *
 *   MALLOW_CHECK_FILE    the results: made by the caller, of sizeof(struct results)
 *   MALLOW_CHECK_TABLES  the directory that holds tables/
 *   MALLOW_CHECK_EVERY   compare each Nth stack
 *
 * libgcc knows as little as the unwinder of code without call frame information. A program of such code exports
 * `shadow_stack`, in which it keeps its return addresses itself: its stacks are compared with that.
 */
#include "arch.h"
#include "base/filter.h"
#include "base/target.h"
#include "walk/modules.h"
#include "walk/stacks.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unwind.h>

#define LIMIT  512u
#define EXPORT __attribute__((visibility("default")))

/* crates/capture/tests/unwind_check.rs reads this. */
struct results {
    uint64_t walked;    /* stacks unwound */
    uint64_t guessed;   /* of these, guessed */
    uint64_t compared;  /* of these, compared */
    uint64_t equal;     /* every pc and stack pointer the same, up to the same outermost frame */
    uint64_t longer;    /* equal as far as libgcc goes, which ends at code without call frame information */
    uint64_t cut;       /* equal as far as ours goes, which says that it is cut */
    uint64_t different; /* all others */
    uint64_t frames;    /* in compared stacks, by libgcc's count */
    uint64_t strayed;   /* by the program's own count: cut, and wrong before that */
    uint64_t kept;      /* by the program's own count: frames of stacks that are cut */
    uint64_t text_used;
    char text[1 << 20]; /* lines: the first stacks that are not equal, and modules without a table */
};

struct frame {
    uint64_t pc, sp;
};

struct theirs {
    uint64_t sp; /* of the first frame wanted */
    uint32_t count;
    int stopped; /* at the limit */
    struct frame frame[LIMIT + 1];
};

/* What the program says of itself: where each of its functions under way returns to, the outermost first. */
struct shadow {
    uint64_t depth; /* 0: the caller is main itself */
    uint64_t pc[];
};

struct checker {
    struct stacks stacks;
    uint32_t generation;
    struct theirs theirs;
    uint64_t turn;
};

struct target target;
uint32_t filter_state; /* no filter here */

/* Nobody reads here, so nobody stops reading. */
void target_count_lost(void) {}
void target_stop(void) {}

static struct results *results;
static uint64_t every = 1;
static const struct shadow *shadow;
/* The frames further out than main, the outermost first. One thread alone has a shadow. */
static uint64_t outer_pc[64];
static uint32_t outer;
static _Thread_local struct checker *own __attribute__((tls_model("initial-exec")));
static _Thread_local int busy __attribute__((tls_model("initial-exec")));

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void __libc_free(void *block);

static void count(uint64_t *counter, uint64_t n) {
    __atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

static void write_line(const char *line, size_t length) {
    uint64_t at = __atomic_fetch_add(&results->text_used, length, __ATOMIC_RELAXED);
    if (at + length <= sizeof results->text)
        memcpy(results->text + at, line, length);
}

static const char *path_of(uint64_t pc, uint64_t *offset) {
    struct dl_find_object object;
    *offset = pc;
    if (_dl_find_object((void *)pc, &object) != 0)
        return "?";
    *offset = pc - (uint64_t)object.dlfo_map_start;
    return object.dlfo_link_map->l_name[0] != 0 ? object.dlfo_link_map->l_name : "/proc/self/exe";
}

/* Names the module of pc, once, if it has no table: the caller can then make one and run the program again. */
static void note_missing(uint64_t pc) {
    static const struct module *noted[256];
    const struct module *module = module_find(pc);
    if (module == NULL || module->table != NULL)
        return;
    for (size_t i = 0; i < sizeof noted / sizeof noted[0]; i++) {
        const struct module *none = NULL;
        if (__atomic_compare_exchange_n(&noted[i], &none, module, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            char line[600], real[512];
            uint64_t offset;
            const char *path = path_of(pc, &offset);
            long length = sys_readlink(path, real, sizeof real - 1);
            if (length > 0 && strcmp(path, "/proc/self/exe") == 0)
                real[length] = 0, path = real;
            write_line(line, (size_t)snprintf(line, sizeof line, "missing %s\n", path));
            return;
        }
        if (none == module)
            return;
    }
}

static _Unwind_Reason_Code collect(struct _Unwind_Context *context, void *argument) {
    struct theirs *t = argument;
    int exact = 0;
    uint64_t pc = _Unwind_GetIPInfo(context, &exact), sp = _Unwind_GetCFA(context);
    if (t->count == 0 && sp != t->sp)
        return _URC_NO_REASON;
    if (t->count > LIMIT) {
        t->stopped = 1;
        return _URC_NORMAL_STOP;
    }
    if (pc != 0)
        t->frame[t->count++] = (struct frame){exact ? pc | MALLOW_EXACT_PC : pc, sp};
    return _URC_NO_REASON;
}

static size_t write_frame(char *line, size_t at, size_t size, uint64_t pc, uint64_t sp) {
    uint64_t offset;
    const char *path = path_of((pc & ~MALLOW_EXACT_PC) - 1, &offset), *slash = strrchr(path, '/');
    int length =
        snprintf(line + at, size - at, " %s+0x%llx%s@%llx", slash != NULL ? slash + 1 : path,
                 (unsigned long long)offset + 1, (pc & MALLOW_EXACT_PC) != 0 ? "!" : "", (unsigned long long)sp);
    return length > 0 && at + (size_t)length < size ? at + (size_t)length : at;
}

/* Counts, and describes the stacks around the first difference for the first 40 of a kind. */
static void write_stacks(const char *kind, uint64_t *counter, const struct checker *c, uint32_t same) {
    char line[8192];
    if (__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED) >= 40)
        return;
    const struct unwinder *u = &c->stacks.unwinder;
    size_t at = (size_t)snprintf(line, sizeof line, "%s after %u equal frames; ours (%u, %u shared%s):", kind, same,
                                 u->depth, u->shared, u->cut ? ", cut" : "");
    uint32_t from = same > 3 ? same - 3 : 0;
    for (uint32_t i = from; i < u->depth && i < same + 8; i++)
        at = write_frame(line, at, sizeof line, u->places[u->depth - 1 - i].pc, u->places[u->depth - 1 - i].sp);
    at += (size_t)snprintf(line + at, sizeof line - at, "; libgcc's (%u):", c->theirs.count);
    for (uint32_t i = from; i < c->theirs.count && i < same + 8; i++)
        at = write_frame(line, at, sizeof line, c->theirs.frame[i].pc, c->theirs.frame[i].sp);
    line[at++] = '\n';
    write_line(line, at);
}

/* Code in which libgcc finds no call frame information, where a walk of its own has to end. */
static int without_information(uint64_t pc) {
    void *bases[3];
    extern const void *_Unwind_Find_FDE(void *, void **);
    uint64_t key = (pc & MALLOW_EXACT_PC) != 0 ? pc & ~MALLOW_EXACT_PC : pc - 1;
    return _Unwind_Find_FDE((void *)key, bases) == NULL;
}

static void compare(struct checker *c) {
    const struct unwinder *u = &c->stacks.unwinder;
    struct theirs *t = &c->theirs;
    uint32_t same = 0;
    while (same < u->depth && same < t->count && u->places[u->depth - 1 - same].pc == t->frame[same].pc &&
           u->places[u->depth - 1 - same].sp == t->frame[same].sp)
        same++;
    count(&results->compared, 1);
    count(&results->frames, t->count);
    int ends = same == t->count && same > 0 && without_information(t->frame[same - 1].pc);
    if (same == u->depth && (same == t->count || t->stopped) && (!u->cut || t->stopped || ends)) {
        count(&results->equal, 1);
    } else if (ends) {
        write_stacks("longer", &results->longer, c, same);
    } else if (same == u->depth && u->cut) {
        write_stacks("cut", &results->cut, c, same);
    } else {
        write_stacks("different", &results->different, c, same);
    }
    for (uint32_t i = 0; i < t->count; i++)
        note_missing((t->frame[i].pc & ~MALLOW_EXACT_PC) - 1);
}

/* Where the nth frame returns to, 0 the innermost; 0 where there is none. */
static uint64_t shadow_pc(uint32_t nth, uint64_t innermost) {
    if (nth == 0)
        return innermost;
    if (nth <= shadow->depth)
        return shadow->pc[shadow->depth - nth];
    nth -= (uint32_t)shadow->depth;
    return nth <= outer ? outer_pc[outer - nth] : 0;
}

static void compare_shadow(struct checker *c, uint64_t innermost) {
    const struct unwinder *u = &c->stacks.unwinder;
    uint32_t wanted = 1 + (uint32_t)shadow->depth + outer, same = 0;
    while (same < u->depth && same < wanted && u->places[u->depth - 1 - same].pc == shadow_pc(same, innermost))
        same++;
    count(&results->compared, 1);
    count(&results->frames, wanted);
    c->theirs.count = wanted < LIMIT ? wanted : LIMIT;
    for (uint32_t i = 0; i < c->theirs.count; i++)
        c->theirs.frame[i] = (struct frame){shadow_pc(i, innermost), 0};
    if (same == u->depth && same == wanted && !u->cut) {
        count(&results->equal, 1);
    } else if (same == u->depth && u->cut) {
        count(&results->kept, same);
        write_stacks("cut", &results->cut, c, same);
    } else {
        write_stacks(u->cut ? "strayed" : "different", u->cut ? &results->strayed : &results->different, c, same);
    }
}

/* Learns the frames further out than main from a stack that main is the innermost frame of. */
static void learn_outer(const struct unwinder *u) {
    outer = u->depth - 1 < 64 ? u->depth - 1 : 64;
    for (uint32_t i = 0; i < outer; i++)
        outer_pc[i] = u->places[i].pc;
}

/* As tracer.c does it, without a ring. */
static void find(struct stacks *s, uint32_t *generation, const struct arch_frame *frame) {
    uint64_t pc = frame->return_address, sp = (uint64_t)(frame + 1);
    count(&results->walked, 1);
    if (stacks_guess(s, pc, sp, frame->caller_fp)) {
        count(&results->guessed, 1);
        return;
    }
    stacks_walk(s, pc, sp, frame->caller_fp);
    if (*generation != modules_generation) {
        *generation = modules_generation;
        stacks_forget(s);
    }
    uint32_t number = stacks_number(s);
    if (number == NUMBER_NONE)
        number = numbers_add(&s->numbers, s->unwinder.states[s->unwinder.depth - 1].hash);
    if (number != NUMBER_NONE)
        stacks_use(s, number);
}

static __attribute__((noinline)) void check(const struct arch_frame *frame) {
    if (results == NULL || busy)
        return;
    busy = 1;
    struct checker *c = own;
    if (c == NULL) {
        c = sys_memory(sizeof *c + unwind_bytes(LIMIT));
        if (c != NULL && stacks_setup(&c->stacks, c + 1, LIMIT))
            own = c;
    }
    if (own != NULL) {
        find(&c->stacks, &c->generation, frame);
        if (shadow != NULL && shadow->depth > 0) {
            compare_shadow(c, frame->return_address);
        } else if (++c->turn % every == 0) {
            learn_outer(&c->stacks.unwinder);
            c->theirs.sp = (uint64_t)(frame + 1);
            c->theirs.count = 0;
            c->theirs.stopped = 0;
            _Unwind_Backtrace(collect, &c->theirs);
            compare(c);
        }
    }
    busy = 0;
}

#define FRAME ((const struct arch_frame *)__builtin_frame_address(0))

EXPORT void *malloc(size_t size) {
    void *block = __libc_malloc(size);
    check(FRAME);
    return block;
}

EXPORT void free(void *block) {
    if (modules_is_linker(FRAME->return_address))
        modules_linker_freed();
    __libc_free(block);
}

EXPORT void *calloc(size_t number, size_t size) {
    void *block = __libc_calloc(number, size);
    check(FRAME);
    return block;
}

EXPORT void *realloc(void *old, size_t size) {
    void *block = __libc_realloc(old, size);
    check(FRAME);
    return block;
}

__attribute__((constructor)) static void begin(void) {
    const char *file = getenv("MALLOW_CHECK_FILE"), *tables = getenv("MALLOW_CHECK_TABLES");
    const char *turns = getenv("MALLOW_CHECK_EVERY");
    if (file == NULL || tables == NULL || turns == NULL)
        return;
    text_copy(target.directory, tables, sizeof target.directory);
    target.pid = (uint32_t)sys_getpid();
    every = strtoull(turns, NULL, 10);
    modules_setup();
    shadow = dlsym(RTLD_DEFAULT, "shadow_stack");
    long fd = sys_open(file, O_RDWR, 0);
    if (fd < 0)
        return;
    results = sys_map((int)fd, sizeof *results, 1);
    sys_close((int)fd);
}

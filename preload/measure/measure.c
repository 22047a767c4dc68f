/*
 * Measured regions: what include/mallow.h finds. A region is two readings of the process's counters and their
 * difference, written to DIR/results as one record; nothing else is kept, so a crash loses the run under way alone.
 *
 * Nothing here allocates, and no descriptor stays open.
 */
#include "base/entries.h"
#include "base/filter.h"
#include "base/reader.h"
#include "base/target.h"
#include "include/mallow.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

/* A reading of the counters. */
struct sums {
    uint64_t allocations, bytes, frees, reallocs_in_place, reallocs_moved, unrecorded;
    uint64_t words; /* in rings: what moves where events are traced, and counters stand still */
};

/* How struct mallow_region is used. */
struct reading {
    struct sums before;
    int32_t descriptors;
    uint32_t number;
    uint32_t pid;
    uint32_t run;
    uint32_t kind; /* enum mallow_result_kind of the record that ends it */
    uint32_t flags;
    int32_t threads; /* of the process, when it began */
};
_Static_assert(sizeof(struct reading) <= sizeof((struct mallow_region *)0)->own, "the header leaves room for it");
_Static_assert(sizeof(struct mallow_result) == 256, "one write, and whole records only");

enum { REGION_CLOSED = 0, REGION_OPEN = 1 };

static void add_block(struct sums *to, const struct mallow_thread *block) {
    for (int family = 0; family < MALLOW_FAMILY_COUNT; family++) {
        to->allocations += __atomic_load_n(&block->counter[family].allocations, __ATOMIC_RELAXED);
        to->bytes += __atomic_load_n(&block->counter[family].bytes, __ATOMIC_RELAXED);
    }
    to->frees +=
        __atomic_load_n(&block->frees, __ATOMIC_RELAXED) + __atomic_load_n(&block->realloc_frees, __ATOMIC_RELAXED);
    to->reallocs_in_place += __atomic_load_n(&block->realloc_in_place, __ATOMIC_RELAXED);
    to->reallocs_moved += __atomic_load_n(&block->realloc_moved, __ATOMIC_RELAXED);
    to->words += __atomic_load_n(&block->head, __ATOMIC_RELAXED);
}

/* What this image counted so far. A thread's block is read while it writes: each counter is a whole word, and the wait
 * for quiet is what makes a reading of many of them one moment. */
static struct sums sums_now(uint32_t scope) {
    struct sums sums = {0};
    struct mallow_process *process = image_alive != 0 ? __atomic_load_n(&target.process, __ATOMIC_ACQUIRE) : NULL;
    if (process == NULL)
        return sums; /* no event yet */
    sums.unrecorded = __atomic_load_n(&process->unrecorded, __ATOMIC_RELAXED);
    if (scope == MALLOW_THIS_THREAD) {
        if (thread_block() != NULL)
            add_block(&sums, thread_block());
        return sums;
    }
    uint32_t threads = __atomic_load_n(&process->threads, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < threads && i < process->max_threads; i++)
        add_block(&sums, &target.threads[i]);
    return sums;
}

/* ---- waiting until other threads are quiet ---- */

/* Counters that stand still for so long, while all other threads sleep at each look: quiet. A thread that waited for a
 * processor until now sleeps for a moment, too, between two allocations. */
#define QUIET_MS 5u
/* The same while one does not sleep: it computes, and does not allocate. */
#define BUSY_QUIET_MS 100u

static void sleep_ms(unsigned ms) {
    uint32_t nobody = 0;
    uint64_t until = sys_now_ns() + ms * 1000000ull;
    while (sys_now_ns() < until)
        sys_futex_wait(&nobody, 0, ms);
}

struct search {
    char own[24];
    int found;
};

/* Whether a thread other than the calling one runs, or waits for a processor. `name`: its number. */
static int find_running(void *context, const char *name) {
    struct search *search = context;
    char path[64], state;
    uint64_t start;
    size_t length = text_copy(path, "/proc/self/task/", sizeof path - 8);
    length += text_copy(path + length, name, sizeof path - 8 - length);
    memcpy(path + length, "/stat", 6);
    return search->found = strcmp(name, search->own) != 0 && sys_thread_stat(path, &state, &start) && state == 'R';
}

/* All other threads sleep. Counters that stand still do not distinguish a thread that waits for a processor from one
 * that has nothing to do, and one that was just created has no counters. Costs some microseconds a thread. */
static int others_sleep(void) {
    struct search search = {.found = 0};
    *text_decimal(search.own, (uint64_t)sys_gettid()) = 0;
    sys_entries("/proc/self/task", find_running, &search);
    return !search.found;
}

/* 0 where the time is over and threads still allocate. One thread alone is quiet at once. */
static int wait_until_quiet(void) {
    if (sys_entries("/proc/self/task", NULL, NULL) == 1)
        return 1;
    struct sums last = sums_now(MALLOW_WHOLE_PROCESS);
    unsigned quiet = 0, asleep = 0;
    for (uint32_t waited = 0; waited < target.control->quiet_ms; waited++) {
        sleep_ms(1);
        struct sums now = sums_now(MALLOW_WHOLE_PROCESS);
        quiet = memcmp(&now, &last, sizeof now) == 0 ? quiet + 1 : 0;
        last = now;
        if (quiet >= BUSY_QUIET_MS)
            return 1;
        asleep = quiet > 0 && others_sleep() ? asleep + 1 : 0;
        /* Once more, for what one did between the look at the counters and the look at it. */
        now = asleep < QUIET_MS ? now : sums_now(MALLOW_WHOLE_PROCESS);
        if (asleep >= QUIET_MS && memcmp(&now, &last, sizeof now) == 0)
            return 1;
    }
    return 0;
}

/* A look at the counters costs some microseconds; SwiftNIO looks every 50 ms. */
#define SETTLE_STEP_MS 10u

/* True where blocks of the run may still be freed without the calling thread: another thread lives, and some block is
 * unfreed. Traced events are not counted here; there a thread that began in the run and still lives stands for them. */
static int unsettled(const struct reading *reading) {
    int threads = sys_entries("/proc/self/task", NULL, NULL);
    if (threads <= 1)
        return 0;
    if (target.control->mode != MALLOW_MODE_COUNT)
        return threads > reading->threads;
    struct sums now = sums_now(MALLOW_WHOLE_PROCESS);
    return (int64_t)((now.allocations - reading->before.allocations) - (now.frees - reading->before.frees)) > 0;
}

/* SwiftNIO's rule for the end of a measured run: nothing of it is unfreed, or settle_ms are over. A worker that goes
 * when it was idle for some seconds, as libdispatch's, frees its blocks only then. 0 as wait_until_quiet. */
static int wait_until_settled(const struct reading *reading) {
    uint32_t settle_ms = target.control->settle_ms;
    int quiet = wait_until_quiet();
    if (settle_ms == 0 || reading->kind != MALLOW_RESULT_RUN || !unsettled(reading))
        return quiet;
    uint64_t until = sys_now_ns() + settle_ms * 1000000ull;
    while (sys_now_ns() < until && unsettled(reading))
        sleep_ms(SETTLE_STEP_MS);
    return wait_until_quiet();
}

/* Traced: waits until mallow has read all that was written. It looks at all heads before it moves a tail, so what is
 * written from here on is read in a later round, and no doubt about the order is left. Mallow may be gone. */
static void wait_until_read(void) {
    struct mallow_process *process = image_alive != 0 ? __atomic_load_n(&target.process, __ATOMIC_ACQUIRE) : NULL;
    if (process == NULL || process->mode != MALLOW_MODE_TRACE)
        return;
    struct patience patience = {0};
    uint32_t nobody = 0;
    for (int waited = 0; waited < 2000; waited++) {
        uint32_t unread = 0, threads = __atomic_load_n(&process->threads, __ATOMIC_ACQUIRE);
        for (uint32_t i = 0; i < threads && i < process->max_threads; i++)
            unread += __atomic_load_n(&target.threads[i].head, __ATOMIC_ACQUIRE) !=
                      __atomic_load_n(&target.threads[i].tail, __ATOMIC_ACQUIRE);
        if (unread == 0)
            return;
        doorbell_ring();
        if (!reader_wait(&patience, &nobody, 0, 1))
            return;
    }
}

static void mark(uint32_t number, int end, uint32_t scope) {
    if (recording->region == NULL)
        return;
    int whole = scope == MALLOW_WHOLE_PROCESS;
    if (whole)
        wait_until_read();
    recording->region(number, end, !whole);
    if (whole)
        wait_until_read();
}

/* How many are open, without the one that looks; below 0 where that is not known. */
static int open_descriptors(void) {
    int entries = sys_entries("/proc/self/fd", NULL, NULL);
    return entries > 0 ? entries - 1 : -1;
}

/* ---- results ---- */

static void result_write(struct mallow_result *result, const char *name) {
    char path[sizeof target.directory + 16];
    size_t length = text_copy(path, target.directory, sizeof path - 16);
    memcpy(path + length, "/results", 9);
    result->magic = MALLOW_RESULT_MAGIC;
    result->tid = (uint32_t)sys_gettid();
    result->name_len = (uint32_t)text_copy(result->name, name, sizeof result->name);
    if (name[result->name_len] != 0)
        result->flags |= MALLOW_RESULT_NAME_CUT;
    long fd = target_open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW, 0600);
    if (fd < 0)
        return;
    sys_write((int)fd, result, sizeof *result);
    sys_close((int)fd);
}

/* The name and what only its end knows are not filled in. */
static struct mallow_result result_of(const struct reading *reading, const struct sums *now) {
    const struct sums *before = &reading->before;
    return (struct mallow_result){
        .kind = reading->kind,
        .pid = reading->pid,
        .flags = reading->flags,
        .run = reading->run,
        .number = reading->number,
        .allocations = now->allocations - before->allocations,
        .bytes = now->bytes - before->bytes,
        .frees = now->frees - before->frees,
        .reallocs_in_place = now->reallocs_in_place - before->reallocs_in_place,
        .reallocs_moved = now->reallocs_moved - before->reallocs_moved,
        .unrecorded = now->unrecorded - before->unrecorded,
        .descriptors_before = reading->descriptors,
        .descriptors_after = -1,
    };
}

/* ---- regions ---- */

/* The error number is the program's. */
static void region_begin(struct mallow_region *region, const char *name, uint32_t scope, uint32_t kind, uint32_t run) {
    int saved_errno = errno;
    struct reading reading = {.pid = (uint32_t)sys_getpid(), .run = run, .kind = kind};
    reading.number = __atomic_add_fetch(&target.control->regions, 1, __ATOMIC_RELAXED);
    region->name = name;
    region->scope = scope;
    region->state = REGION_OPEN;
    if (scope == MALLOW_THIS_THREAD)
        reading.flags |= MALLOW_RESULT_THIS_THREAD;
    else if (!wait_until_quiet())
        reading.flags |= MALLOW_RESULT_RESTLESS;
    /* The record of its beginning reports a run that never ends. */
    struct sums none = {0};
    struct mallow_result begun = result_of(&reading, &none);
    begun.kind = MALLOW_RESULT_BEGUN;
    result_write(&begun, name);
    mark(reading.number, 0, scope);
    reading.descriptors = open_descriptors();
    reading.threads = scope == MALLOW_WHOLE_PROCESS ? sys_entries("/proc/self/task", NULL, NULL) : 1;
    reading.before = sums_now(scope);
    memcpy(region->own, &reading, sizeof reading);
    errno = saved_errno;
}

/*
 * Nobody would read what a region counted, or a filter of system calls would end the program: it is as without Mallow.
 */
static int is_unread(void) {
    return target.control == NULL || filter_is(FILTER_FORBIDS_REGIONS) || reader_is_gone(target.control);
}

static void begin(struct mallow_region *region, const char *name, uint32_t scope) {
    region->state = REGION_CLOSED;
    if (is_unread() || name == NULL || scope > MALLOW_THIS_THREAD)
        return;
    region_begin(region, name, scope, MALLOW_RESULT_RUN, 0);
}

static void end(struct mallow_region *region, long operations) {
    if (is_unread() || region->state != REGION_OPEN)
        return;
    int saved_errno = errno;
    region->state = REGION_CLOSED;
    struct reading reading;
    memcpy(&reading, region->own, sizeof reading);
    /* A copy in a child of fork: the run is its parent's. */
    if (reading.pid == (uint32_t)sys_getpid()) {
        if (region->scope == MALLOW_WHOLE_PROCESS && !wait_until_settled(&reading))
            reading.flags |= MALLOW_RESULT_RESTLESS;
        mark(reading.number, 1, region->scope);
        struct sums now = sums_now(region->scope);
        struct mallow_result result = result_of(&reading, &now);
        result.descriptors_after = open_descriptors();
        result.operations = operations > 0 ? (uint64_t)operations : 0;
        result_write(&result, region->name);
    }
    errno = saved_errno;
}

static void measure(const char *name, mallow_function function, void *context, uint32_t scope) {
    const struct mallow_control *control = target.control;
    if (is_unread() || name == NULL || scope > MALLOW_THIS_THREAD) {
        function(context);
        return;
    }
    for (uint32_t run = 0; run < control->warmups + control->runs && (run == 0 || !is_unread()); run++) {
        int warmup = run < control->warmups;
        struct mallow_region region;
        region_begin(&region, name, scope, warmup ? MALLOW_RESULT_WARMUP : MALLOW_RESULT_RUN,
                     warmup ? run : run - control->warmups);
        end(&region, function(context));
    }
}

static long operations(long otherwise) {
    const struct mallow_control *control = target.control;
    return !is_unread() && control->operations != 0 ? (long)control->operations : otherwise;
}

__attribute__((visibility("default"))) extern const struct mallow_api mallow_api_1;
const struct mallow_api mallow_api_1 = {
    .bytes = sizeof(struct mallow_api),
    .version = MALLOW_API_VERSION,
    .measure = measure,
    .begin = begin,
    .end = end,
    .operations = operations,
};

/* ---- the proof ---- */

/* The functions that the program's own calls lead to: whatever comes first in the dynamic linker's order. */
struct called {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    void (*free)(void *);
};

/* MALLOW_CHECK_ALLOCATIONS allocations of MALLOW_CHECK_BYTES bytes, all freed; and `more` of 1 byte. */
static void make_known_calls(const struct called *call, unsigned more) {
    void *a = call->malloc(24), *b = call->calloc(3, 16), *c = NULL;
    a = call->realloc(a, 4096);
    if (call->posix_memalign(&c, 64, 200) != 0)
        c = NULL;
    call->free(a);
    call->free(b);
    call->free(c);
    for (; more > 0; more--) {
        void *volatile block = call->malloc(1);
        call->free(block);
    }
}

static void check_write(uint32_t kind, const struct called *call, unsigned more) {
    struct reading reading = {
        .pid = (uint32_t)sys_getpid(), .kind = kind, .descriptors = -1, .before = sums_now(MALLOW_THIS_THREAD)};
    make_known_calls(call, more);
    struct sums now = sums_now(MALLOW_THIS_THREAD);
    struct mallow_result result = result_of(&reading, &now);
    result_write(&result, "");
}

/* Makes known calls and writes what was counted, where the control page asks for it, in counting mode. The calls are
 * taken out of the counters again. */
__attribute__((constructor)) static void measure_check(void) {
    if (is_unread() || !(target.control->flags & MALLOW_SELF_CHECK) || target.control->mode != MALLOW_MODE_COUNT)
        return;
    int saved_errno = errno;
    struct called call;
    *(void **)&call.malloc = dlsym(RTLD_DEFAULT, "malloc");
    *(void **)&call.calloc = dlsym(RTLD_DEFAULT, "calloc");
    *(void **)&call.realloc = dlsym(RTLD_DEFAULT, "realloc");
    *(void **)&call.posix_memalign = dlsym(RTLD_DEFAULT, "posix_memalign");
    *(void **)&call.free = dlsym(RTLD_DEFAULT, "free");
    if (call.malloc != NULL && call.calloc != NULL && call.realloc != NULL && call.posix_memalign != NULL &&
        call.free != NULL) {
        /* The thread has its block from here on. A signal handler's events would be lost with ours: none comes. */
        uint64_t mask = sys_block_signals();
        struct mallow_thread none = {0}, *block = thread_block();
        struct mallow_thread kept = block != NULL ? *block : none;
        if (block == NULL)
            call.free(call.malloc(1));
        check_write(MALLOW_RESULT_CHECK, &call, 0);
        check_write(MALLOW_RESULT_PLANTED, &call, 1);
        block = thread_block();
        if (block != NULL) {
            block->frees = kept.frees;
            block->realloc_frees = kept.realloc_frees;
            block->realloc_in_place = kept.realloc_in_place;
            block->realloc_moved = kept.realloc_moved;
            memcpy(block->counter, kept.counter, sizeof kept.counter);
        }
        sys_restore_signals(mask);
    }
    errno = saved_errno;
}

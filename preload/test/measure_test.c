/* Measured regions: what a run's record says. */
#include "include/mallow.h"
#include "reader.h"
#include "story.h"
#include "test.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>

static struct reading reading;
static struct mallow_result results[64];
static size_t result_count;

static void results_read(void) {
    char path[300];
    snprintf(path, sizeof path, "%s/results", reading.directory);
    int fd = open(path, O_RDONLY);
    ssize_t bytes = fd < 0 ? 0 : read(fd, results, sizeof results);
    CHECK(bytes >= 0 && (size_t)bytes % sizeof *results == 0);
    result_count = (size_t)bytes / sizeof *results;
    close(fd);
}

static void run(enum mallow_mode mode, const char *scenario, uint32_t warmups, uint32_t runs, uint32_t flags) {
    reading_make(&reading, mode);
    reading.control->warmups = warmups;
    reading.control->runs = runs;
    reading.control->flags = flags;
    reading.control->quiet_ms = 2000;
    reading_start(&reading, scenario, NULL);
    reading_finish(&reading);
    results_read();
}

/* The results of a kind, one a line: "name#run allocations/bytes -frees ops fds". */
static const char *results_text(uint32_t kind) {
    static char text[4096];
    size_t at = 0;
    text[0] = 0;
    for (size_t i = 0; i < result_count; i++) {
        const struct mallow_result *r = &results[i];
        CHECK(r->magic == MALLOW_RESULT_MAGIC && r->name_len < sizeof r->name);
        if (r->kind == kind)
            at += (size_t)snprintf(
                text + at, sizeof text - at, "%s%.*s#%u %llu/%llu -%llu ops %llu fds %d%s%s", at > 0 ? "; " : "",
                (int)r->name_len, r->name, r->run, (unsigned long long)r->allocations, (unsigned long long)r->bytes,
                (unsigned long long)r->frees, (unsigned long long)r->operations,
                r->descriptors_after - r->descriptors_before, r->flags & MALLOW_RESULT_RESTLESS ? " restless" : "",
                r->flags & MALLOW_RESULT_NAME_CUT ? " cut" : "");
    }
    return text;
}

static void *volatile sink;

static long three_blocks(void *context) {
    int *calls = context;
    ++*calls;
    for (int i = 0; i < 3; i++) {
        sink = malloc(10);
        if (i > 0)
            free(sink);
    }
    return 3;
}

SCENARIO(measured_function) {
    int calls = 0;
    mallow_measure("blocks", three_blocks, &calls);
    CHECK(calls == 3);
}

SCENARIO(measured_function_once) {
    int calls = 0;
    mallow_measure("blocks", three_blocks, &calls);
    CHECK(calls == 1);
}

TEST(each_run_of_a_function_is_counted) {
    run(MALLOW_MODE_COUNT, "measured_function", 1, 2, 0);
    CHECK(reading.status == 0);
    CHECK_TEXT(results_text(MALLOW_RESULT_WARMUP), "blocks#0 3/30 -2 ops 3 fds 0");
    CHECK_TEXT(results_text(MALLOW_RESULT_RUN), "blocks#0 3/30 -2 ops 3 fds 0; blocks#1 3/30 -2 ops 3 fds 0");
    CHECK(result_count == 6);
}

TEST(idle_runs_as_often_and_counts_nothing) {
    run(MALLOW_MODE_IDLE, "measured_function", 1, 2, MALLOW_SELF_CHECK);
    CHECK(reading.status == 0 && reading.images == 0);
    CHECK_TEXT(results_text(MALLOW_RESULT_RUN), "blocks#0 0/0 -0 ops 3 fds 0; blocks#1 0/0 -0 ops 3 fds 0");
    CHECK(result_count == 6);
}

/* The library is not there: the function runs once. */
TEST(without_the_library_a_function_runs_once) {
    int calls = 0;
    mallow_measure("blocks", three_blocks, &calls);
    CHECK(calls == 1);
    CHECK(mallow_operations(12) == 12);
    struct mallow_region region;
    mallow_begin(&region, "none", MALLOW_WHOLE_PROCESS);
    mallow_end(&region, 1);
}

SCENARIO(regions) {
    struct mallow_region outer, inner, never;
    mallow_begin(&outer, "outer", MALLOW_WHOLE_PROCESS);
    void *a = malloc(100);
    mallow_begin(&inner, "inner", MALLOW_THIS_THREAD);
    a = realloc(a, 50);
    mallow_end(&inner, mallow_operations(1));
    mallow_end(&inner, 7); /* it has ended */
    free(a);
    sink = calloc(2, 4);
    mallow_end(&outer, -5);
    mallow_begin(&never, "never ends", MALLOW_WHOLE_PROCESS);
}

TEST(regions_nest) {
    run(MALLOW_MODE_COUNT, "regions", 0, 1, 0);
    CHECK_TEXT(results_text(MALLOW_RESULT_RUN), "inner#0 1/50 -1 ops 1 fds 0; outer#0 3/158 -2 ops 0 fds 0");
    for (size_t i = 0; i < result_count; i++)
        CHECK(results[i].kind != MALLOW_RESULT_RUN || results[i].reallocs_in_place + results[i].reallocs_moved == 1);
}

TEST(a_region_that_never_ends_has_a_beginning) {
    run(MALLOW_MODE_COUNT, "regions", 0, 1, 0);
    CHECK_TEXT(results_text(MALLOW_RESULT_BEGUN),
               "outer#0 0/0 -0 ops 0 fds -1; inner#0 0/0 -0 ops 0 fds -1; never ends#0 0/0 -0 ops 0 fds -1");
}

TEST(the_operations_wanted_reach_the_program) {
    reading_make(&reading, MALLOW_MODE_COUNT);
    reading.control->operations = 12;
    reading_start(&reading, "regions", NULL);
    reading_finish(&reading);
    results_read();
    CHECK_TEXT(results_text(MALLOW_RESULT_RUN), "inner#0 1/50 -1 ops 12 fds 0; outer#0 3/158 -2 ops 0 fds 0");
}

static long leave_open(void *context) {
    (void)context;
    return open("/dev/null", O_RDONLY) >= 0 && open("/dev/null", O_RDONLY) >= 0 ? 1 : 0;
}

SCENARIO(open_descriptors) {
    mallow_measure("leave open", leave_open, NULL);
}

TEST(descriptors_that_stay_open_are_reported) {
    run(MALLOW_MODE_COUNT, "open_descriptors", 0, 2, 0);
    CHECK_TEXT(results_text(MALLOW_RESULT_RUN), "leave open#0 0/0 -0 ops 1 fds 2; leave open#1 0/0 -0 ops 1 fds 2");
}

/* Marks and allocations of a ring, in order: "(1 malloc )1" is run 1 with one allocation. */
static const char *marks(const struct image *image) {
    static char text[512];
    size_t at = 0;
    text[0] = 0;
    struct story story = story_of(&image->ring[0]);
    for (size_t i = 0; i < story.events; i++) {
        const struct event *e = &story.event[i];
        if (e->op == MALLOW_OP_REGION)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%s%llu", at > 0 ? " " : "",
                                   e->argument & 1 ? ")" : "(", (unsigned long long)e->argument >> 1);
        else if (e->op >= MALLOW_OP_ALLOC)
            at += (size_t)snprintf(text + at, sizeof text - at, "%smalloc", at > 0 ? " " : "");
    }
    return text;
}

TEST(runs_are_marked_in_the_ring) {
    run(MALLOW_MODE_TRACE, "measured_function", 1, 2, 0);
    CHECK(reading.status == 0);
    CHECK_TEXT(marks(reading_only(&reading)),
               "(1 malloc malloc malloc )1 (2 malloc malloc malloc )2 (3 malloc malloc malloc )3");
    CHECK_TEXT(results_text(MALLOW_RESULT_WARMUP), "blocks#0 0/0 -0 ops 3 fds 0");
    CHECK(results[1].number == 1 && results[3].number == 2 && results[5].number == 3);
}

TEST(marks_are_written_where_nobody_reads) {
    reading_make(&reading, MALLOW_MODE_TRACE);
    reading.control->runs = 1;
    reading.deaf = 1;
    reading_start(&reading, "measured_function_once", NULL);
    reading_finish(&reading);
    CHECK(reading.status == 0);
}

/* ---- threads ---- */

static void *allocate_later(void *context) {
    for (int i = 0; i < 20; i++) {
        usleep(1000);
        free(malloc(1000));
    }
    return context;
}

static pthread_t worker;

static long start_worker(void *context) {
    CHECK(pthread_create(&worker, NULL, allocate_later, context) == 0);
    return 1;
}

SCENARIO(busy_worker) {
    mallow_measure("worker", start_worker, NULL);
    pthread_join(worker, NULL);
    struct mallow_region own;
    mallow_begin(&own, "own", MALLOW_THIS_THREAD);
    start_worker(NULL);
    free(malloc(5));
    pthread_join(worker, NULL);
    mallow_end(&own, 0);
}

TEST(the_end_of_a_run_waits_for_other_threads) {
    run(MALLOW_MODE_COUNT, "busy_worker", 0, 1, 0);
    const struct mallow_result *whole = NULL, *own = NULL;
    for (size_t i = 0; i < result_count; i++)
        if (results[i].kind == MALLOW_RESULT_RUN)
            *(results[i].flags & MALLOW_RESULT_THIS_THREAD ? &own : &whole) = &results[i];
    CHECK(whole != NULL && own != NULL);
    /* 20 of the worker, and what the C library needs for it: the same at each run, whatever that is. */
    CHECK(whole->allocations >= 20 && whole->allocations < 25 && whole->bytes >= 20000);
    CHECK(own->allocations >= 1 && own->allocations < 5 && own->bytes < 1000);
}

/* As a thread that was just created and waits for a processor: it has not allocated yet. */
static void *compute_first(void *context) {
    struct timespec now, begin;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < 40);
    free(malloc(5000));
    return context;
}

static long start_computing(void *context) {
    (void)context;
    CHECK(pthread_create(&worker, NULL, compute_first, NULL) == 0);
    return 1;
}

SCENARIO(late_first_allocation) {
    mallow_measure("late", start_computing, NULL);
    pthread_join(worker, NULL);
}

TEST(the_end_of_a_run_waits_for_a_thread_that_has_not_allocated_yet) {
    run(MALLOW_MODE_COUNT, "late_first_allocation", 0, 1, 0);
    const struct mallow_result *whole = NULL;
    for (size_t i = 0; i < result_count; i++)
        if (results[i].kind == MALLOW_RESULT_RUN)
            whole = &results[i];
    CHECK(whole != NULL && whole->bytes >= 5000);
}

static volatile int stop;

static void *allocate_on(void *context) {
    while (!stop)
        free(malloc(1));
    return context;
}

static long nothing(void *context) {
    (void)context;
    return 0;
}

SCENARIO(never_quiet) {
    CHECK(pthread_create(&worker, NULL, allocate_on, NULL) == 0);
    mallow_measure("noise", nothing, NULL);
    stop = 1;
    pthread_join(worker, NULL);
}

TEST(waiting_for_quiet_is_given_up_and_reported) {
    reading_make(&reading, MALLOW_MODE_COUNT);
    reading.control->runs = 1;
    reading.control->quiet_ms = 20;
    reading_start(&reading, "never_quiet", NULL);
    reading_finish(&reading);
    results_read();
    CHECK(reading.status == 0 && result_count == 2);
    CHECK(strstr(results_text(MALLOW_RESULT_RUN), "restless") != NULL);
}

/* As libdispatch's workers: asleep, and gone a while later. */
static void *go_later(void *block) {
    struct timespec a_while = {.tv_nsec = 300000000};
    nanosleep(&a_while, NULL);
    free(block);
    return NULL;
}

static long leave_a_worker(void *keep) {
    if (keep != NULL)
        sink = malloc(5);
    CHECK(pthread_create(&worker, NULL, go_later, malloc(7)) == 0);
    pthread_detach(worker);
    return 1;
}

/* The C library keeps what it allocated for a thread's stack, for the next one. */
static void keep_a_stack(void) {
    CHECK(pthread_create(&worker, NULL, go_later, NULL) == 0);
    pthread_join(worker, NULL);
}

SCENARIO(idle_worker) {
    keep_a_stack();
    mallow_measure("worker", leave_a_worker, NULL);
}

SCENARIO(idle_worker_and_a_leak) {
    keep_a_stack();
    mallow_measure("worker", leave_a_worker, &reading);
}

/* What is left of the run: allocations without a free. */
static unsigned long long unfreed(const char *scenario, uint32_t settle_ms) {
    reading_make(&reading, MALLOW_MODE_COUNT);
    reading.control->runs = 1;
    reading.control->quiet_ms = 2000;
    reading.control->settle_ms = settle_ms;
    reading_start(&reading, scenario, NULL);
    reading_finish(&reading);
    results_read();
    CHECK(reading.status == 0 && result_count == 2 && results[1].kind == MALLOW_RESULT_RUN);
    return results[1].allocations - results[1].frees;
}

TEST(a_run_may_wait_until_nothing_is_unfreed) {
    CHECK(unfreed("idle_worker", 0) > 0);
    CHECK(unfreed("idle_worker", 10000) == 0);
    /* A leak stays one, and the wait ends where nobody is left who could free it. */
    CHECK(unfreed("idle_worker_and_a_leak", 600000) == 1);
}

/* ---- processes ---- */

SCENARIO(forked_region) {
    struct mallow_region region;
    mallow_begin(&region, "parent's", MALLOW_WHOLE_PROCESS);
    free(malloc(8));
    pid_t child = fork();
    if (child == 0) {
        mallow_end(&region, 1);
        mallow_begin(&region, "child's", MALLOW_WHOLE_PROCESS);
        sink = malloc(9);
        mallow_end(&region, 1);
        _exit(0);
    }
    CHECK(waitpid(child, NULL, 0) == child);
    mallow_end(&region, 1);
}

TEST(a_child_does_not_end_its_parents_region) {
    run(MALLOW_MODE_COUNT, "forked_region", 0, 1, 0);
    CHECK(reading.status == 0);
    CHECK_TEXT(results_text(MALLOW_RESULT_RUN), "child's#0 1/9 -0 ops 1 fds 0; parent's#0 1/8 -1 ops 1 fds 0");
}

#define LONG_NAME                                                                                                      \
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"             \
    "0123456789012345678901234567890123456789"

SCENARIO(long_name) {
    struct mallow_region region;
    mallow_begin(&region, LONG_NAME, MALLOW_WHOLE_PROCESS);
    mallow_end(&region, 0);
    mallow_begin(&region, NULL, MALLOW_WHOLE_PROCESS);
    mallow_end(&region, 0);
    mallow_begin(&region, "unknown scope", 7);
    mallow_end(&region, 0);
}

TEST(names_are_cut_and_nonsense_is_passed_over) {
    run(MALLOW_MODE_COUNT, "long_name", 0, 1, 0);
    CHECK(reading.status == 0 && result_count == 2);
    CHECK(results[1].name_len == 127 && strncmp(results[1].name, LONG_NAME, 127) == 0);
    CHECK(results[1].flags == MALLOW_RESULT_NAME_CUT);
}

/* ---- the proof ---- */

SCENARIO(one_malloc) {
    sink = malloc(11);
}

TEST(known_calls_are_counted_and_taken_out_again) {
    run(MALLOW_MODE_COUNT, "one_malloc", 0, 1, MALLOW_SELF_CHECK);
    CHECK(reading.status == 0 && result_count == 2);
    CHECK(results[0].kind == MALLOW_RESULT_CHECK && results[1].kind == MALLOW_RESULT_PLANTED);
    const struct mallow_result *check = &results[0], *planted = &results[1];
    CHECK(check->allocations == MALLOW_CHECK_ALLOCATIONS && check->frees == MALLOW_CHECK_ALLOCATIONS);
    CHECK(check->bytes == MALLOW_CHECK_BYTES && check->unrecorded == 0);
    CHECK(planted->allocations == MALLOW_CHECK_ALLOCATIONS + 1 && planted->frees == MALLOW_CHECK_ALLOCATIONS + 1);
    CHECK(planted->bytes == MALLOW_CHECK_BYTES + 1);
    CHECK_TEXT(counts_text(reading_only(&reading)), "malloc 1/11");
}

TEST(no_proof_where_none_is_asked_for) {
    run(MALLOW_MODE_COUNT, "one_malloc", 0, 1, 0);
    CHECK(reading.status == 0 && result_count == 0);
}

TEST(events_are_traced_without_a_proof) {
    run(MALLOW_MODE_TRACE, "one_malloc", 0, 1, MALLOW_SELF_CHECK);
    CHECK(reading.status == 0 && result_count == 0);
    CHECK_TEXT(events_text(reading_only(&reading), 0), "a=malloc 11");
}

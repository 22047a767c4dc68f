/* What tracing writes beside the events: threads, times and stacks; and what
 * becomes of it when mallow is slow, gone or has had enough. */
#include "story.h"
#include "test.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static struct reading reading;

/* The functions keep frame pointers and stay apart; as no tables are made,
 * stacks are walked by these. */
#define APART __attribute__((noinline, noclone))

static struct story only_story(void) {
    return story_of(&reading_only(&reading)->ring[0]);
}

static const struct event *event_of(const struct story *story, size_t nth) {
    for (size_t i = 0; i < story->events; i++)
        if (story->event[i].op >= MALLOW_OP_ALLOC && nth-- == 0)
            return &story->event[i];
    test_failed(__FILE__, __LINE__, "there are so many allocations");
}

static const struct story_stack *stack_of(const struct story *story, size_t nth) {
    return &story->stack[event_of(story, nth)->stack];
}

/* The return address of the nth frame, 0 the innermost, is within the first
 * bytes of a function. */
static int returns_to(const struct story_stack *stack, uint32_t nth, void (*function)(void)) {
    return nth < stack->depth && stack->pc[stack->depth - 1 - nth] - (uintptr_t)function < 200;
}

/* ---- stacks ---- */

APART static void innermost(void) {
    CHECK(malloc(1) != NULL);
}

APART static void left(void) {
    innermost();
    __asm__ volatile("");
}

APART static void right(void) {
    innermost();
    __asm__ volatile("");
}

APART static void both(void) {
    left();
    right();
    left();
}

SCENARIO(two_ways) {
    for (volatile int i = 0; i < 2; i++) /* not unrolled: one call */
        both();
}

TEST(stacks_are_who_called) {
    reading_run(&reading, MALLOW_MODE_TRACE, "two_ways");
    struct story story = only_story();
    CHECK(story_count(&story, MALLOW_OP_ALLOC + MALLOW_FAMILY_MALLOC) == 6);
    for (size_t i = 0; i < 6; i++) {
        const struct story_stack *stack = stack_of(&story, i);
        CHECK(returns_to(stack, 0, innermost));
        CHECK(returns_to(stack, 1, i % 3 == 1 ? right : left));
        CHECK(returns_to(stack, 2, both));
        CHECK(returns_to(stack, 3, two_ways));
        CHECK(stack->depth < reading.control->max_depth);
    }
}

TEST(a_stack_is_sent_once) {
    reading_run(&reading, MALLOW_MODE_TRACE, "two_ways");
    struct story story = only_story();
    CHECK(story.stacks == 3);
    for (uint32_t i = 0; i < 6; i++)
        CHECK(event_of(&story, i)->stack == i % 3);
}

SCENARIO(again) {
    for (volatile int i = 0; i < 5; i++)
        malloc(i == 2 ? 9 : 8);
}

TEST(size_and_stack_are_written_once_while_they_repeat) {
    reading_run(&reading, MALLOW_MODE_TRACE, "again");
    struct story story = only_story();
    static const uint64_t size[] = {8, 8, 9, 8, 8};
    static const int same[] = {0, 1, 0, 0, 1};
    for (size_t i = 0; i < 5; i++) {
        const struct event *e = event_of(&story, i);
        CHECK(e->size == size[i] && ((e->flags & MALLOW_FLAG_SAME) != 0) == same[i]);
        CHECK(e->stack == event_of(&story, 0)->stack);
    }
}

APART static void recurse(int depth) {
    if (depth == 0)
        CHECK(malloc(1) != NULL);
    else
        recurse(depth - 1);
    __asm__ volatile("");
}

SCENARIO(deep) {
    recurse(100);
    recurse(3);
}

TEST(deep_stacks_are_cut_at_the_root) {
    reading_run(&reading, MALLOW_MODE_TRACE, "deep");
    struct story story = only_story();
    const struct story_stack *stack = stack_of(&story, 0);
    CHECK(stack->cut && stack->depth == reading.control->max_depth);
    for (uint32_t i = 0; i < stack->depth; i++)
        CHECK(returns_to(stack, i, (void (*)(void))recurse));
    stack = stack_of(&story, 1);
    CHECK(stack->depth < reading.control->max_depth);
    for (uint32_t i = 0; i < 4; i++)
        CHECK(returns_to(stack, i, (void (*)(void))recurse));
    CHECK(returns_to(stack, 4, deep));
}

TEST(max_depth_is_what_the_control_page_says) {
    reading_make(&reading, MALLOW_MODE_TRACE);
    reading.control->max_depth = 90;
    reading_start(&reading, "deep", NULL);
    reading_finish(&reading);
    struct story story = only_story();
    CHECK(stack_of(&story, 0)->depth == 90 && stack_of(&story, 0)->cut);
}

static void at_signal(int number) {
    (void)number;
    free(malloc(9));
}

SCENARIO(signal_handler) {
    signal(SIGUSR1, at_signal);
    free(malloc(8));
    raise(SIGUSR1);
}

TEST(what_a_handler_allocates_is_recorded) {
    reading_run(&reading, MALLOW_MODE_TRACE, "signal_handler");
    CHECK_TEXT(events_text(reading_only(&reading), 0), "a=malloc 8; free a; b=malloc 9; free b");
    struct story story = only_story();
    CHECK(returns_to(stack_of(&story, 1), 0, (void (*)(void))at_signal));
}

/* ---- time ---- */

SCENARIO(now_and_later) {
    free(malloc(1));
    raise(SIGSTOP);
    free(malloc(2));
}

TEST(the_clock_is_in_the_ring) {
    reading_make(&reading, MALLOW_MODE_TRACE);
    reading_start(&reading, "now_and_later", NULL);
    reading_until_stopped(&reading);
    reading.control->epoch = 5000;
    reading_continue(&reading);
    reading_finish(&reading);
    struct story story = only_story();
    uint64_t time = 0;
    for (size_t i = 0; i < story.events; i++) {
        const struct event *e = &story.event[i];
        if (e->op == MALLOW_OP_TIME)
            time = e->argument;
        else if (e->op >= MALLOW_OP_ALLOC)
            CHECK((e->size == 2) == (time >= 5000));
    }
    CHECK(time >= 5000);
}

TEST(nothing_is_written_once_it_is_over) {
    reading_make(&reading, MALLOW_MODE_TRACE);
    reading_start(&reading, "now_and_later", NULL);
    reading_until_stopped(&reading);
    reading.control->epoch = MALLOW_EPOCH_OVER;
    reading_continue(&reading);
    reading_finish(&reading);
    CHECK(reading.status == 0);
    CHECK_TEXT(events_text(reading_only(&reading), 0), "a=malloc 1; free a");
    CHECK(image_sums(reading_only(&reading)).lost == 0);
}

/* ---- full rings ---- */

#define MANY 20000

SCENARIO(many) {
    for (int i = 0; i < MANY; i++)
        free(malloc((size_t)i));
}

static void start_with_little_rings(void) {
    reading_make(&reading, MALLOW_MODE_TRACE);
    reading.control->large_ring_words = 64;
    reading.control->small_ring_words = 64;
    reading_start(&reading, "many", NULL);
}

TEST(a_full_ring_is_waited_for) {
    start_with_little_rings();
    reading_finish(&reading);
    CHECK(reading.status == 0);
    struct story story = only_story();
    size_t number = 0;
    uint64_t address = 0;
    for (size_t i = 0; i < story.events; i++) {
        const struct event *e = &story.event[i];
        if (e->op >= MALLOW_OP_ALLOC) {
            CHECK(e->size == number && address == 0);
            address = e->argument;
            number++;
        } else if (e->op == MALLOW_OP_FREE) {
            CHECK(e->argument == address);
            address = 0;
        }
    }
    CHECK(number == MANY && story_count(&story, MALLOW_OP_FREE) == MANY);
    CHECK(image_sums(reading_only(&reading)).lost == 0);
}

/*
 * The target goes on without it; what was written before can be read, and what was not is counted, to the last event.
 */
static void check_goes_on(uint64_t lost, size_t read_before) {
    reading.deaf = 1;
    reading_finish(&reading);
    CHECK(reading.status == 0);
    const struct image *image = reading_only(&reading);
    CHECK(image->ring[0].count > 32 && image->ring[0].count <= read_before + 64);
    struct story story = only_story();
    uint64_t frees = story_count(&story, MALLOW_OP_FREE), allocations = story_count(&story, MALLOW_OP_ALLOC);
    CHECK(frees > 3);
    CHECK(image_sums(image).lost == (lost != 0 ? lost : 2 * MANY - frees - allocations));
}

TEST(a_silent_reader_is_not_waited_for_twice) {
    start_with_little_rings();
    check_goes_on(0, 0);
    CHECK(reading.control->silent == reading.control->epoch);
}

static void start_stopped(void) {
    reading_make(&reading, MALLOW_MODE_TRACE);
    reading.control->large_ring_words = 64;
    reading.control->small_ring_words = 64;
    reading_start(&reading, "now_and_many", NULL);
    reading_until_stopped(&reading);
}

SCENARIO(now_and_many) {
    free(malloc(1));
    raise(SIGSTOP);
    for (int i = 0; i < MANY; i++)
        free(malloc((size_t)i));
}

/* The kernel said so: the event that found the ring full is the last that is looked at. */
TEST(a_dead_reader_is_not_waited_for) {
    start_stopped();
    __atomic_fetch_or(&reading.control->reader, MALLOW_READER_DIED, __ATOMIC_SEQ_CST);
    reading_continue(&reading);
    check_goes_on(1, 64);
    CHECK(reading.control->silent == 0 && reading.control->ping == 0);
}

SCENARIO(now_and_forks) {
    free(malloc(1));
    raise(SIGSTOP);
    for (int i = 0; i < 3; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            free(malloc(2));
            execl("/proc/self/exe", "scenario", "scenario", "many", NULL);
            _exit(97);
        }
        int status;
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    }
}

/* Neither a child nor an image that comes later has a file, or waits. */
TEST(nobody_begins_a_recording_for_a_dead_reader) {
    reading_make(&reading, MALLOW_MODE_TRACE);
    reading_start(&reading, "now_and_forks", NULL);
    reading_until_stopped(&reading);
    __atomic_fetch_or(&reading.control->reader, MALLOW_READER_DIED, __ATOMIC_SEQ_CST);
    uint32_t doorbell = reading.control->doorbell;
    reading_continue(&reading);
    reading_finish(&reading);
    CHECK(reading.status == 0);
    reading_only(&reading);
    CHECK(reading.control->doorbell == doorbell && reading.control->failed_processes == 0);
}

/* Sampling where something cannot be had, and the memory that it takes. */
#include "samples.h"
#include "test.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

static struct reading reading;

static void run(const char *scenario) {
    reading_start(&reading, scenario, NULL);
    reading_finish(&reading);
    CHECK(reading.status == 0);
}

/* ---- what cannot be had ---- */

SCENARIO(more_than_slots) {
    char *blocks[100];
    for (int i = 0; i < 100; i++) {
        blocks[i] = malloc(1000);
        memset(blocks[i], i, 1000);
    }
    for (int i = 0; i < 100; i++) {
        CHECK(blocks[i][999] == i);
        free(blocks[i]);
    }
}

TEST(what_finds_no_slot_is_served_and_counted) {
    samples_make(&reading, 1);
    reading.control->max_slots = 10;
    run("more_than_slots");
    const struct mallow_sampling *s = samples_of(reading_only(&reading));
    CHECK(s->begun == 10 && s->ended == 10 && s->without_slot == 90);
}

static void check_limited(int resource, rlim_t limit, uint64_t least) {
    samples_make(&reading, 1);
    CHECK(setrlimit(resource, &(struct rlimit){limit, limit}) == 0);
    run("more_than_slots");
    uint64_t begun = reading.images == 0 ? 0 : samples_of(reading_only(&reading))->begun;
    CHECK(begun >= least);
}

TEST(an_address_space_of_2_gib_has_room_for_some) {
    check_limited(RLIMIT_AS, 2ull << 30, 100);
}

SCENARIO(needs_its_addresses) {
    char *block = malloc(1000);
    void *all = mmap(NULL, 7ull << 29, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(all != MAP_FAILED);
    free(block);
}

TEST(an_address_space_that_is_limited_stays_the_programs) {
    samples_make(&reading, 1);
    CHECK(setrlimit(RLIMIT_AS, &(struct rlimit){4ull << 30, 4ull << 30}) == 0);
    run("needs_its_addresses");
    CHECK_TEXT(samples_text(reading_only(&reading)), "malloc 1000 freed");
}

TEST(an_address_space_without_room_is_left_alone) {
    check_limited(RLIMIT_AS, 24ull << 20, 0);
}

TEST(data_that_may_not_grow_is_left_alone) {
    check_limited(RLIMIT_DATA, 3ull << 20, 0);
}

TEST(files_that_may_not_grow_are_left_alone) {
    check_limited(RLIMIT_FSIZE, 8192, 0);
}

/* ---- children with less room than their parents ---- */

#define KEPT  12
#define OFTEN (4 * MALLOW_SAMPLE_LOOK)

static void keep(void *block) {
    __asm__ volatile("" : : "r"(block) : "memory");
}

/* Parent and child allocate from the same place, with the same stack. Each of these is picked. What comes first in the
 * child is seldom picked: it looks at the control page, and makes the file. */
SCENARIO(forks_after_a_stop) {
    pid_t child = -1;
    for (volatile int i = 0; i < 2 * KEPT; i++) {
        if (i == KEPT) {
            raise(SIGSTOP);
            if ((child = fork()) > 0)
                break;
            keep(malloc(MALLOW_SAMPLE_LOOK));
        }
        keep(malloc(15 * OFTEN));
    }
    int status;
    CHECK(child == 0 || (waitpid(child, &status, 0) == child && status == 0));
}

/* The parent has room for all, the child for so much. */
static const struct image *forked_with(uint32_t slots, uint64_t stack_bytes) {
    samples_make(&reading, OFTEN);
    reading.deaf = 1; /* else each tick of its clock has stacks walked anew, while tables may come */
    reading_start(&reading, "forks_after_a_stop", NULL);
    reading_until_stopped(&reading);
    reading.control->max_slots = slots;
    reading.control->stack_bytes = stack_bytes;
    reading_continue(&reading);
    reading_finish(&reading);
    CHECK(reading.status == 0 && reading.images == 2);
    CHECK(samples_live(&reading.image[0]) == KEPT && samples_of(&reading.image[0])->without_stack == 0);
    return &reading.image[1];
}

/* Not in the parent's store: its number says nothing in the child's. */
TEST(a_child_without_room_for_stacks_has_samples_without) {
    const struct image *child = forked_with(1000, 32);
    const struct mallow_sampling *s = samples_of(child);
    CHECK(s->begun >= KEPT && samples_live(child) == KEPT + s->begun && s->without_stack == s->begun);
    for (uint32_t i = 0; i < samples_live(child); i++)
        CHECK(sample_live(child, i)->stack == 0);
}

/* An allocation without an entry in the file is counted, and served by the underlying allocator. */
TEST(a_child_whose_file_is_full_samples_nothing_more) {
    const struct image *child = forked_with(10, 1 << 20);
    const struct mallow_sampling *s = samples_of(child);
    CHECK(s->max_slots == 10 && s->slots == 10 && s->begun == 0 && samples_live(child) == 10);
    CHECK(s->without_slot >= 2 * KEPT - 10);
}

/* ---- memory ---- */

static size_t resident(void) {
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fscanf(file, "%*u %lu", &pages) == 1);
    fclose(file);
    return pages * 4096;
}

/* Anonymous memory: files do not count. */
SCENARIO(memory_goes_back) {
    static char *blocks[20000];
    size_t before = resident();
    for (int i = 0; i < 20000; i++) {
        blocks[i] = malloc(2500);
        memset(blocks[i], 1, 2500);
    }
    size_t full = resident();
    CHECK(full - before > 20000 * 4096ull);
    /* A page each, what is kept of it, and its entry in the file. */
    CHECK(full - before < 20000 * (4096ull + 300) + (2 << 20));
    for (int i = 0; i < 20000; i++)
        free(blocks[i]);
    CHECK(resident() < full - 20000 * 4096ull + (1 << 20));
    for (int i = 0; i < 50; i++) {
        char *big = malloc(8 << 20);
        memset(big, 1, 8 << 20);
        free(big);
    }
    CHECK(resident() < before + (20 << 20));
}

TEST(memory_of_freed_samples_goes_back) {
    samples_make(&reading, 1);
    reading.control->max_slots = 1 << 15;
    run("memory_goes_back");
    CHECK(samples_of(reading_only(&reading))->begun >= 20050);
}

/* All that can be written to is filled by this: it must not be terabytes. */
SCENARIO(locks_its_memory) {
    free(malloc(1000));
    int locked = mlockall(MCL_CURRENT | MCL_FUTURE) == 0;
    size_t before = resident();
    for (int i = 0; i < 100; i++) {
        char *block = malloc(100000);
        memset(block, 1, 100000);
        free(block);
        block = calloc(1, 100000);
        for (int j = 0; j < 100000; j++)
            CHECK(block[j] == 0);
        free(block);
    }
    CHECK(!locked || resident() < before + (64 << 20));
}

TEST(a_program_that_locks_its_memory_is_not_filled_up) {
    samples_make(&reading, 1);
    run("locks_its_memory");
}

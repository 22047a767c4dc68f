/* Stack numbers, and what a signal handler that leaves by siglongjmp does to their tables. */
#include "test.h"
#include "walk/numbers.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

/* The system as the tables see it: a signal comes just after memory was given back, the moment that hurts most. */

/* storm: it comes with the storm-th memory given back, 0: with none. */
static int storm, handled;

void *sys_memory(size_t bytes) {
    void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return start != MAP_FAILED ? start : NULL;
}

void sys_memory_free(void *start, size_t bytes) {
    CHECK(munmap(start, bytes) == 0);
    if (storm > 0 && --storm == 0)
        raise(SIGUSR1);
}

uint64_t sys_block_signals(void) {
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    return (uint64_t)sigismember(&before, SIGUSR1);
}

void sys_restore_signals(uint64_t mask) {
    sigset_t usr1;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    sigprocmask(mask ? SIG_BLOCK : SIG_UNBLOCK, &usr1, NULL);
}

static uint64_t hash_of(uint32_t number) {
    return (number + 1) * 0x9e3779b97f4a7c15ull;
}

static void add(struct numbers *numbers, uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; i++)
        CHECK(numbers_add(numbers, hash_of(i)) == i);
}

TEST(a_hash_has_the_number_that_it_was_given) {
    struct numbers numbers = {0};
    CHECK(numbers_reset(&numbers));
    add(&numbers, 0, 5000);
    for (uint32_t i = 0; i < 5000; i++)
        CHECK(numbers_find(&numbers, hash_of(i)) == i);
    CHECK(numbers_find(&numbers, hash_of(5000)) == NUMBER_NONE);
    CHECK(numbers_reset(&numbers));
    CHECK(numbers_find(&numbers, hash_of(0)) == NUMBER_NONE);
}

static sigjmp_buf back;

static void leave(int number) {
    (void)number;
    handled++;
    siglongjmp(back, 1);
}

TEST(a_handler_that_leaves_while_tables_change_leaves_them_whole) {
    static struct numbers numbers;
    static volatile uint32_t rounds;
    signal(SIGUSR1, leave);
    for (rounds = 0; rounds < 20; rounds++) {
        numbers = (struct numbers){0};
        CHECK(numbers_reset(&numbers));
        if (sigsetjmp(back, 1) == 0) {
            /* The table grows first, then the arrays by number. */
            storm = rounds % 2 + 1;
            add(&numbers, 0, 3000);
            test_failed(__FILE__, __LINE__, "no signal came");
        }
        storm = 0;
        CHECK(numbers_find(&numbers, hash_of(255)) == 255);
        /* What was left is forgotten, as a tracer does that finds its last event unfinished. */
        CHECK(numbers_reset(&numbers));
        add(&numbers, 0, 1000);
        CHECK(numbers_find(&numbers, hash_of(999)) == 999);
    }
    CHECK(handled == 20);
}

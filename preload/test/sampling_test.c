/* Sampling as a whole: what is picked, threads, forks, changes while it runs, and what cannot be had. */
#include "samples.h"
#include "test.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

static struct reading reading;

static void finish(void) {
    reading_finish(&reading);
    CHECK(reading.status == 0);
}

static void run(const char *scenario) {
    reading_start(&reading, scenario, NULL);
    finish();
}

static double weight(const struct mallow_slot *sample) {
    return -1 / expm1(-(double)sample->size / sample->period);
}

/* ---- picking ---- */

#define MIXED_BLOCKS 100000
#define MIXED_PERIOD 20000

static size_t mixed_size(unsigned i) {
    static const size_t sizes[] = {1, 16, 100, 1000, 30000, 8, 400000, 24};
    return sizes[i % 8];
}

/* Tiny and huge in turn. */
SCENARIO(mixed) {
    for (unsigned i = 0; i < MIXED_BLOCKS; i++)
        free(malloc(mixed_size(i)));
}

/* Bytes and blocks, as estimated from the samples, within five standard deviations of the truth. */
TEST(estimates_are_unbiased) {
    samples_make(&reading, MIXED_PERIOD);
    reading.control->max_ends = 1 << 17;
    run("mixed");
    const struct image *image = reading_only(&reading);
    double bytes = 0, blocks = 0, all_bytes = 0, bytes_variance = 0, blocks_variance = 0;
    for (uint64_t i = 1; i <= samples_of(image)->ended; i++) {
        const struct mallow_slot *sample = &sample_end(image, i)->sample;
        CHECK(sample->period == MIXED_PERIOD);
        bytes += weight(sample) * (double)sample->size;
        blocks += weight(sample);
    }
    for (unsigned i = 0; i < MIXED_BLOCKS; i++) {
        double size = (double)mixed_size(i), p = -expm1(-size / MIXED_PERIOD);
        all_bytes += size;
        bytes_variance += size * size * (1 - p) / p;
        blocks_variance += (1 - p) / p;
    }
    CHECK(fabs(bytes - all_bytes) < 5 * sqrt(bytes_variance));
    CHECK(fabs(blocks - MIXED_BLOCKS) < 5 * sqrt(blocks_variance));
    samples_check_losses(image);
}

SCENARIO(large_ones) {
    for (unsigned i = 0; i < 20000; i++)
        free(malloc(400000));
}

/* A draw is looked at several times before it hits. */
TEST(estimates_are_unbiased_where_the_period_is_long) {
    samples_make(&reading, 8 << 20);
    run("large_ones");
    double p = -expm1(-400000.0 / (8 << 20)), found = (double)samples_of(reading_only(&reading))->begun;
    CHECK(fabs(found - 20000 * p) < 5 * sqrt(20000 * p * (1 - p)));
}

static void *one_block(void *size) {
    return malloc((size_t)size);
}

/* 20,000 threads, one block each: of 1000 bytes, with a period of 20,000. */
SCENARIO(threads_of_one_block) {
    for (int i = 0; i < 20000; i += 20) {
        pthread_t threads[20];
        void *blocks[20];
        for (int j = 0; j < 20; j++)
            CHECK(pthread_create(&threads[j], NULL, one_block, (void *)1000) == 0);
        for (int j = 0; j < 20; j++)
            CHECK(pthread_join(threads[j], &blocks[j]) == 0);
        for (int j = 0; j < 20; j++)
            free(blocks[j]);
    }
}

TEST(no_threads_first_allocation_is_favoured) {
    samples_make(&reading, 20000);
    run("threads_of_one_block");
    const struct image *image = reading_only(&reading);
    double p = -expm1(-1000.0 / 20000), expected = 20000 * p, found = 0;
    for (uint64_t i = 1; i <= samples_of(image)->ended; i++)
        found += sample_end(image, i)->sample.size == 1000;
    CHECK(fabs(found - expected) < 5 * sqrt(expected * (1 - p)));
}

/* ---- what samples record ---- */

static __attribute__((noinline)) char *allocating(void) {
    char *block = malloc(3000);
    __asm__ volatile("" : "+r"(block));
    return block;
}

static __attribute__((noinline)) void freeing(char *block) {
    free(block);
    __asm__ volatile("" ::: "memory");
}

SCENARIO(where_it_was) {
    for (volatile int i = 0; i < 3; i++) /* no compiler makes three calls of it */
        freeing(allocating());
    allocating();
}

static int leads_through(const struct mallow_stack *stack, const void *function) {
    return stack->pc[stack->depth - 1] - (uint64_t)function < 100;
}

TEST(samples_record_stack_time_and_thread) {
    samples_make(&reading, 1);
    run("where_it_was");
    const struct image *image = reading_only(&reading);
    CHECK(samples_of(image)->ended == 3 && samples_live(image) == 1);
    for (uint64_t i = 1; i <= 3; i++) {
        const struct mallow_end *end = sample_end(image, i);
        CHECK(end->kind == MALLOW_END_FREED && end->tid == image->pid && end->sample.tid == image->pid);
        CHECK(end->sample.id == i && end->sample.period == 1 && end->sample.size == 3000);
        CHECK(end->ended_ns >= end->sample.began_ns && end->sample.began_ns + 20000000 > image->process->start_ns);
        CHECK(leads_through(sample_stack(image, end->sample.stack), (void *)allocating));
        CHECK(leads_through(sample_stack(image, end->stack), (void *)freeing));
    }
    CHECK(sample_end(image, 2)->sample.stack == sample_end(image, 3)->sample.stack);
    CHECK(sample_live(image, 0)->address == sample_end(image, 3)->sample.address);
    CHECK(sample_live(image, 0)->sequence == sample_end(image, 3)->sample.sequence + 4);
    /* The loop's two calls, and the one behind it. */
    CHECK(sample_live(image, 0)->stack != sample_end(image, 3)->sample.stack);
}

/* Two calls of one function in turn: a frame's address does not show which it is. */
static __attribute__((noinline)) void both_calls(void) {
    char *first = malloc(3000);
    __asm__ volatile("" : "+r"(first));
    char *second = malloc(4000);
    __asm__ volatile("" : "+r"(second));
    free(first);
    free(second);
    __asm__ volatile("");
}

SCENARIO(two_calls) {
    for (volatile int i = 0; i < 4; i++)
        both_calls();
}

TEST(calls_of_one_function_are_told_apart) {
    samples_make(&reading, 1);
    run("two_calls");
    const struct image *image = reading_only(&reading);
    CHECK(samples_of(image)->ended == 8);
    for (uint64_t i = 1; i <= 8; i += 2) {
        const struct mallow_end *first = sample_end(image, i), *second = sample_end(image, i + 1);
        CHECK(first->sample.size == 3000 && second->sample.size == 4000);
        CHECK(first->sample.stack != second->sample.stack && first->stack != second->stack);
        CHECK(sample_stack(image, first->sample.stack)->pc[sample_stack(image, first->sample.stack)->depth - 1] <
              sample_stack(image, second->sample.stack)->pc[sample_stack(image, second->sample.stack)->depth - 1]);
        CHECK(i == 1 || first->sample.stack == sample_end(image, 1)->sample.stack);
    }
}

SCENARIO(many_ends) {
    for (int i = 0; i < 1000; i++)
        free(malloc(100));
}

TEST(ends_overwrite_the_oldest) {
    samples_make(&reading, 1);
    reading.control->max_ends = 64;
    run("many_ends");
    const struct image *image = reading_only(&reading);
    CHECK(samples_of(image)->ended == 1000);
    for (uint64_t number = 1000 - 63; number <= 1000; number++)
        CHECK(sample_end(image, number)->sample.id == number);
}

static __attribute__((noinline)) void recurse(int depth) {
    if (depth > 0)
        recurse(depth - 1);
    free(malloc(100));
    __asm__ volatile("" ::: "memory");
}

SCENARIO(many_stacks) {
    recurse(10);
    for (int i = 0; i < 200; i++)
        recurse(i);
}

TEST(a_full_store_of_stacks_is_counted) {
    samples_make(&reading, 1);
    reading.control->stack_bytes = 2000;
    run("many_stacks");
    const struct image *image = reading_only(&reading);
    const struct mallow_sampling *s = samples_of(image);
    CHECK(s->without_stack > 1000 && s->stacks_used <= 2000 && s->without_slot == 0);
    samples_check_losses(image);
}

/* ---- threads ---- */

static void *churn(void *given) {
    void *mine[8];
    free(given);
    for (int i = 0; i < 8; i++)
        mine[i] = malloc(60 + 1000 * (size_t)i);
    for (int i = 0; i < 7; i++)
        free(mine[i]);
    return mine[7];
}

SCENARIO(threads_come_and_go) {
    void *kept[8] = {NULL};
    for (int i = 0; i < 3000; i++) {
        pthread_t threads[8];
        for (int j = 0; j < 8; j++)
            CHECK(pthread_create(&threads[j], NULL, churn, kept[j]) == 0);
        for (int j = 0; j < 8; j++)
            CHECK(pthread_join(threads[j], &kept[j]) == 0);
    }
    for (int j = 0; j < 8; j++)
        free(kept[j]);
}

TEST(threads_come_and_go_and_nothing_is_left) {
    samples_make(&reading, 1);
    run("threads_come_and_go");
    const struct image *image = reading_only(&reading);
    const struct mallow_sampling *s = samples_of(image);
    CHECK(s->begun >= 24000 * 8 && s->missed == 0 && s->without_slot == 0 && samples_live(image) < 40);
    CHECK(s->slots < 400);
    samples_check_losses(image);
}

/* ---- forks ---- */

SCENARIO(forks) {
    char *a = malloc(5000), *b = malloc(70000);
    strcpy(a, "kept");
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        CHECK(strcmp(a, "kept") == 0);
        strcpy(a, "mine");
        free(b);
        b = malloc(70000);
        memset(b, 1, 70000);
        char *c = realloc(a, 9000);
        CHECK(strcmp(c, "mine") == 0);
        _exit(0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    CHECK(strcmp(a, "kept") == 0);
    free(a);
    free(b);
    free(malloc(100));
}

TEST(a_child_has_a_ledger_of_its_own) {
    samples_make(&reading, 1);
    run("forks");
    CHECK(reading.images == 2);
    const struct image *parent = &reading.image[0], *child = &reading.image[1];
    CHECK(parent->process->origin == MALLOW_ORIGIN_EXEC && child->process->origin == MALLOW_ORIGIN_FORK);
    CHECK_TEXT(samples_text(parent), "malloc 5000 freed; malloc 70000 freed; malloc 100 freed");
    CHECK_TEXT(samples_text(child), "malloc 70000 freed; malloc 5000 reallocated; [malloc 70000]; [realloc 9000]");
    CHECK(sample_end(child, 1)->sample.flags == MALLOW_SAMPLE_INHERITED);
    CHECK(sample_end(child, 1)->sample.id == sample_end(parent, 2)->sample.id);
    CHECK(samples_of(child)->begun == 2);
    /* What it inherited has its stack in the child's own store. */
    const struct mallow_stack *in_child = sample_stack(child, sample_end(child, 1)->sample.stack);
    const struct mallow_stack *in_parent = sample_stack(parent, sample_end(parent, 2)->sample.stack);
    CHECK(in_child->depth == in_parent->depth && memcmp(in_child->pc, in_parent->pc, 8 * in_child->depth) == 0);
    for (uint32_t i = 0; i < 2; i++)
        CHECK(sample_live(child, i)->flags == 0);
}

SCENARIO(children_draw_anew) {
    free(malloc(1000));
    for (int i = 0; i < 2000; i++) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(malloc(1000) == NULL);
        CHECK(waitpid(pid, NULL, 0) == pid);
    }
}

/* 2000 children with one block each: were what was drawn inherited, all or none would be picked. */
TEST(children_draw_for_themselves) {
    samples_make(&reading, 50000);
    char path[300];
    reading_start(&reading, "children_draw_anew", NULL);
    int status;
    CHECK(waitpid(reading.pid, &status, 0) == reading.pid && status == 0);
    double found = -1; /* the parent's own file */
    for (pid_t pid = reading.pid; pid < reading.pid + 6000; pid++) {
        snprintf(path, sizeof path, "%s/p-%d-0", reading.directory, pid);
        found += access(path, F_OK) == 0;
    }
    double expected = 2000 * -expm1(-1000.0 / 50000);
    CHECK(fabs(found - expected) < 6 * sqrt(expected));
}

static void *allocate_for_ever(void *stop) {
    void *blocks[64] = {NULL};
    for (unsigned i = 0; !__atomic_load_n((int *)stop, __ATOMIC_RELAXED); i++) {
        free(blocks[i % 64]);
        blocks[i % 64] = malloc(100 + i % 5000);
    }
    for (int i = 0; i < 64; i++)
        free(blocks[i]);
    return NULL;
}

SCENARIO(forks_amid_allocations) {
    int stop = 0;
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, allocate_for_ever, &stop) == 0);
    for (int i = 0; i < 60; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            for (int j = 0; j < 100; j++)
                free(malloc(100 + 50 * (size_t)j));
            _exit(0);
        }
        int status;
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    }
    stop = 1;
    for (int i = 0; i < 3; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

TEST(forks_amid_allocations_find_all_whole) {
    samples_make(&reading, 300);
    run("forks_amid_allocations");
    CHECK(reading.images == 61);
    for (unsigned i = 1; i < reading.images; i++)
        CHECK(samples_of(&reading.image[i])->begun > 50 && samples_of(&reading.image[i])->missed == 0);
    samples_check_losses(&reading.image[0]);
}

SCENARIO(execs) {
    char *a = malloc(5000);
    if (a != NULL)
        execl("/proc/self/exe", "scenario", "scenario", "where_it_was", NULL);
}

TEST(an_image_that_execs_is_another_one) {
    samples_make(&reading, 1);
    run("execs");
    CHECK(reading.images == 2 && reading.image[0].pid == reading.image[1].pid);
    CHECK_TEXT(samples_text(&reading.image[0]), "[malloc 5000]");
    CHECK(samples_of(&reading.image[0])->exited == MALLOW_ENDING_EXEC &&
          samples_of(&reading.image[1])->exited == MALLOW_ENDING_EXIT);
    CHECK(samples_of(&reading.image[1])->begun == 4);
}

/* ---- changes ---- */

SCENARIO(goes_on) {
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4000; i++)
            free(malloc(1000));
        raise(SIGSTOP);
    }
}

TEST(sampling_is_switched_while_it_runs) {
    samples_make(&reading, 1000);
    reading.control->mode = MALLOW_MODE_DORMANT;
    reading_start(&reading, "goes_on", NULL);
    reading_until_stopped(&reading);
    const struct mallow_sampling *s = samples_of(reading_only(&reading));
    CHECK(s->begun == 0);
    reading.control->mode = MALLOW_MODE_SAMPLE;
    reading_continue(&reading);
    reading_until_stopped(&reading);
    uint64_t begun = s->begun;
    /* 4 MB; up to one goes by before the thread looks, and one in 1.6 is picked. */
    CHECK(begun > 1600 && s->mode == MALLOW_MODE_SAMPLE && s->period == 1000);
    reading.control->mode = MALLOW_MODE_DORMANT;
    reading_continue(&reading);
    reading_until_stopped(&reading);
    CHECK(s->begun == begun && s->mode == MALLOW_MODE_DORMANT);
    reading_continue(&reading);
    finish();
}

TEST(the_period_is_changed_while_it_runs) {
    samples_make(&reading, UINT32_MAX);
    reading_start(&reading, "goes_on", NULL);
    reading_until_stopped(&reading);
    const struct image *image = reading_only(&reading);
    CHECK(samples_of(image)->begun <= 1);
    reading.control->period = 2000;
    reading_continue(&reading);
    reading_until_stopped(&reading);
    CHECK(samples_of(image)->begun > 1000);
    CHECK(sample_end(image, samples_of(image)->ended)->sample.period == 2000);
    reading.control->period = 50000;
    reading_continue(&reading);
    reading_until_stopped(&reading);
    CHECK(sample_end(image, samples_of(image)->ended)->sample.period == 50000);
    reading_continue(&reading);
    finish();
}

SCENARIO(moves_into_a_slot) {
    char *a = malloc(3000), *b = malloc(100);
    memset(a, 7, 3000);
    memset(b, 7, 100);
    raise(SIGSTOP);
    for (int i = 0; i < 2000; i++)
        free(malloc(1000));
    a = realloc(a, 5000);
    b = reallocarray(b, 60, 1);
    for (int i = 0; i < 3000; i++)
        CHECK(a[i] == 7);
    for (int i = 0; i < 60; i++)
        CHECK(b[i] == 7);
    raise(SIGSTOP);
    for (int i = 0; i < 2000; i++)
        free(malloc(1000));
    a = realloc(a, 4000);
    for (int i = 0; i < 3000; i++)
        CHECK(a[i] == 7);
    free(a);
    free(b);
}

TEST(what_is_reallocated_moves_in_and_out) {
    samples_make(&reading, UINT32_MAX);
    reading_start(&reading, "moves_into_a_slot", NULL);
    reading_until_stopped(&reading);
    reading.control->period = 1;
    reading_continue(&reading);
    reading_until_stopped(&reading);
    const struct image *image = reading_only(&reading);
    CHECK(samples_live(image) == 2);
    reading.control->period = UINT32_MAX;
    reading_continue(&reading);
    finish();
    uint64_t last = samples_of(image)->ended;
    CHECK(samples_live(image) == 0 && sample_end(image, last - 1)->kind == MALLOW_END_REALLOCATED);
    const struct mallow_slot *moved = &sample_end(image, last - 1)->sample, *freed = &sample_end(image, last)->sample;
    CHECK(moved->size == 5000 && moved->family == MALLOW_FAMILY_REALLOC && moved->period == 1);
    CHECK(freed->size == 60 && freed->family == MALLOW_FAMILY_REALLOCARRAY);
}

TEST(a_recording_that_is_over_stays_so) {
    samples_make(&reading, 1000);
    reading_start(&reading, "goes_on", NULL);
    reading_until_stopped(&reading);
    uint64_t begun = samples_of(reading_only(&reading))->begun;
    reading.control->epoch = MALLOW_EPOCH_OVER;
    for (int i = 0; i < 2; i++) {
        reading_continue(&reading);
        reading_until_stopped(&reading);
    }
    CHECK(begun > 1000 && samples_of(reading_only(&reading))->begun <= begun + 1);
    reading_continue(&reading);
    finish();
}

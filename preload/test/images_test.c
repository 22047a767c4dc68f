/* Process images: which have a file, what its header says, and that it holds
 * everything however the image ended. */
#include "story.h"
#include "test.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static struct reading reading;

/* Only what is written before the end: nothing is flushed, no destructor of the
 * library is needed. */
static void check_counted(const char *scenario, int status, const char *expected) {
    reading_make(&reading, MALLOW_MODE_COUNT);
    reading_start(&reading, scenario, NULL);
    reading_finish(&reading);
    CHECK(reading.status == status);
    CHECK_TEXT(counts_text(reading_only(&reading)), expected);
}

static void check_traced(const char *scenario, int status, const char *expected) {
    reading_make(&reading, MALLOW_MODE_TRACE);
    reading_start(&reading, scenario, NULL);
    reading_finish(&reading);
    CHECK(reading.status == status);
    CHECK_TEXT(events_text(reading_only(&reading), 0), expected);
}

/* ---- the header ---- */

SCENARIO(one_block) {
    CHECK(malloc(7) != NULL);
}

static void check_header(enum mallow_mode mode) {
    reading_run(&reading, mode, "one_block");
    const struct image *image = reading_only(&reading);
    const struct mallow_process *process = image->process;
    char executable[1024];
    ssize_t length = readlink("/proc/self/exe", executable, sizeof executable);
    CHECK(process->mode == mode && process->pid == (uint32_t)reading.pid && process->serial == 0);
    CHECK(process->parent_pid == (uint32_t)getpid() && process->origin == MALLOW_ORIGIN_EXEC);
    CHECK(process->executable_len == (uint32_t)length && memcmp(process->text, executable, (size_t)length) == 0);
    CHECK(process->arguments_len == sizeof "scenario\0scenario\0one_block");
    CHECK(memcmp(process->text + length, "scenario\0scenario\0one_block", process->arguments_len) == 0);
    CHECK(process->max_threads == reading.control->max_threads && process->threads == 1 && process->start_ns > 0);
    CHECK(image->threads[0].tid == process->pid);
    CHECK(reading.control->failed_processes == 0 && reading.control->doorbell > 0);
    CHECK((process->rings_offset == process->file_bytes) == (mode == MALLOW_MODE_COUNT));
}

TEST(count_makes_a_file) {
    check_header(MALLOW_MODE_COUNT);
    CHECK_TEXT(counts_text(reading_only(&reading)), "malloc 1/7");
    CHECK(reading_only(&reading)->process->modules == 0);
}

TEST(trace_makes_a_file) {
    check_header(MALLOW_MODE_TRACE);
    CHECK_TEXT(events_text(reading_only(&reading), 0), "a=malloc 7");
    const struct image *image = reading_only(&reading);
    CHECK(image->process->modules > 0);
    const struct mallow_module *module = &image->modules[0];
    CHECK(module->start <= (uintptr_t)one_block && (uintptr_t)one_block < module->end);
    CHECK(module->path_len == image->process->executable_len);
    CHECK(memcmp(module->path, image->process->text, module->path_len) == 0);
}

TEST(a_file_without_arguments_has_the_first_word) {
    reading_make(&reading, MALLOW_MODE_TRACE);
    reading.control->flags = MALLOW_NO_ARGUMENTS;
    reading_start(&reading, "one_block", NULL);
    reading_finish(&reading);
    const struct mallow_process *process = reading_only(&reading)->process;
    const char *arguments = process->text + process->executable_len;
    CHECK(process->arguments_len == strlen("scenario") && memcmp(arguments, "scenario", sizeof "scenario") == 0);
    CHECK(memmem(arguments, sizeof process->text - process->executable_len, "one_block", strlen("one_block")) == NULL);
}

/* ---- no recording ---- */

static void check_no_image(void) {
    reading_start(&reading, "one_block", NULL);
    reading_finish(&reading);
    CHECK(reading.status == 0 && reading.images == 0);
}

#define REFUSED(name, change)                                                                                          \
    TEST(no_file_with_##name) {                                                                                        \
        reading_make(&reading, MALLOW_MODE_COUNT);                                                                     \
        reading.control->change;                                                                                       \
        check_no_image();                                                                                              \
    }

REFUSED(another_magic, magic++)
REFUSED(another_version, version++)
REFUSED(an_unknown_mode, mode = 7)
REFUSED(no_depth, max_depth = 0)
REFUSED(too_much_depth, max_depth = MALLOW_DEPTH_LIMIT + 1)
REFUSED(rings_too_small_for_a_stack, small_ring_words = 2 * reading.control->max_depth)
REFUSED(a_recording_that_is_over, epoch = MALLOW_EPOCH_OVER)

TEST(no_file_with_a_control_page_cut_short) {
    char path[300];
    reading_make(&reading, MALLOW_MODE_COUNT);
    snprintf(path, sizeof path, "%s/control", reading.directory);
    int fd = open(path, O_RDWR);
    struct mallow_control copy = *reading.control;
    CHECK(fd >= 0 && ftruncate(fd, sizeof copy - 1) == 0);
    reading.control = &copy;
    check_no_image();
}

TEST(no_file_with_a_relative_directory) {
    reading_make(&reading, MALLOW_MODE_COUNT);
    CHECK(chdir(getenv("TEST_DIR")) == 0);
    memmove(reading.directory, strrchr(reading.directory, '/') + 1, 11);
    check_no_image();
}

/* A child is recorded unless that was declined; the parent is in any case. */
SCENARIO(child) {
    void *block = malloc(100);
    pid_t pid = fork();
    if (pid == 0) {
        CHECK(malloc(50) != NULL);
        free(block);
        _exit(0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    free(block);
}

TEST(no_file_for_a_child_that_is_left_out) {
    reading_make(&reading, MALLOW_MODE_COUNT);
    reading.control->flags = MALLOW_NO_CHILDREN;
    reading_start(&reading, "child", NULL);
    reading_finish(&reading);
    CHECK(reading.status == 0);
    CHECK_TEXT(counts_text(reading_image(&reading, reading.pid, 0)), "malloc 1/100, frees 1");
    CHECK(reading.images == 1 && reading.control->failed_processes == 0);
}

SCENARIO(little_file_size) {
    struct rlimit limit = {4096, 4096};
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    for (int i = 0; i < 10; i++)
        free(malloc(10));
}

TEST(a_file_that_cannot_be_made_is_reported_once) {
    reading_make(&reading, MALLOW_MODE_TRACE);
    reading_start(&reading, "little_file_size", NULL);
    reading_finish(&reading);
    CHECK(reading.status == 0 && reading.images == 0 && reading.control->failed_processes == 1);
}

/* ---- fork and exec ---- */

static const struct image *only_child(void) {
    CHECK(reading.images == 2);
    const struct image *child = &reading.image[reading.image[0].pid == (uint32_t)reading.pid];
    CHECK(child->process->parent_pid == (uint32_t)reading.pid && child->process->origin == MALLOW_ORIGIN_FORK);
    CHECK(child->serial == 0 && child->process->threads == 1 && child->threads[0].tid == child->pid);
    return child;
}

TEST(count_a_child_has_its_own_file) {
    reading_run(&reading, MALLOW_MODE_COUNT, "child");
    CHECK_TEXT(counts_text(only_child()), "malloc 1/50, frees 1");
    CHECK_TEXT(counts_text(reading_image(&reading, reading.pid, 0)), "malloc 1/100, frees 1");
}

static void check_modules_are_the_parents(const struct image *child, const struct image *parent) {
    CHECK(child->process->modules == parent->process->modules && child->process->modules > 0);
    for (uint32_t i = 0; i < child->process->modules; i++) {
        CHECK(child->modules[i].start == parent->modules[i].start && child->modules[i].end == parent->modules[i].end);
        CHECK(memcmp(child->modules[i].path, parent->modules[i].path, sizeof parent->modules[i].path) == 0);
    }
}

TEST(trace_a_child_has_its_own_file) {
    reading_run(&reading, MALLOW_MODE_TRACE, "child");
    const struct image *child = only_child(), *parent = reading_image(&reading, reading.pid, 0);
    CHECK_TEXT(events_text(child, 0), "a=malloc 50; free ?");
    CHECK_TEXT(events_text(parent, 0), "a=malloc 100; free a");
    check_modules_are_the_parents(child, parent);
}

/* As fork, but no handler of the C library runs. */
SCENARIO(bare_clone) {
    void *block = malloc(100);
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) {
        CHECK(malloc(50) != NULL);
        free(block);
        _exit(0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    free(block);
}

TEST(count_a_bare_clone_has_its_own_file) {
    reading_run(&reading, MALLOW_MODE_COUNT, "bare_clone");
    CHECK_TEXT(counts_text(only_child()), "malloc 1/50, frees 1");
    CHECK_TEXT(counts_text(reading_image(&reading, reading.pid, 0)), "malloc 1/100, frees 1");
}

TEST(trace_a_bare_clone_has_its_own_file) {
    reading_run(&reading, MALLOW_MODE_TRACE, "bare_clone");
    const struct image *child = only_child(), *parent = reading_image(&reading, reading.pid, 0);
    CHECK_TEXT(events_text(child, 0), "a=malloc 50; free ?");
    CHECK_TEXT(events_text(parent, 0), "a=malloc 100; free a");
    check_modules_are_the_parents(child, parent);
}

SCENARIO(generations) {
    for (int generation = 0; generation < 5; generation++) {
        CHECK(malloc(100) != NULL);
        pid_t pid = fork();
        int status;
        if (pid > 0) {
            CHECK(waitpid(pid, &status, 0) == pid);
            _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
        }
    }
    CHECK(malloc(1) != NULL);
    _exit(0);
}

TEST(each_generation_has_its_own_file) {
    reading_run(&reading, MALLOW_MODE_TRACE, "generations");
    CHECK(reading.images == 6);
    for (unsigned i = 0; i < 6; i++) {
        CHECK_TEXT(events_text(&reading.image[i], 0), i < 5 ? "a=malloc 100" : "a=malloc 1");
        CHECK(i == 0 || reading.image[i].process->parent_pid == reading.image[i - 1].pid);
        check_modules_are_the_parents(&reading.image[i], &reading.image[0]);
    }
}

SCENARIO(before_exec) {
    CHECK(malloc(1) != NULL);
    execl("/proc/self/exe", "scenario", "scenario", "after_exec", NULL);
    _exit(96);
}

SCENARIO(after_exec) {
    free(malloc(2));
}

TEST(count_exec_begins_a_file) {
    reading_run(&reading, MALLOW_MODE_COUNT, "before_exec");
    CHECK(reading.images == 2);
    CHECK_TEXT(counts_text(reading_image(&reading, reading.pid, 0)), "malloc 1/1");
    CHECK_TEXT(counts_text(reading_image(&reading, reading.pid, 1)), "malloc 1/2, frees 1");
    CHECK(reading_image(&reading, reading.pid, 1)->process->origin == MALLOW_ORIGIN_EXEC);
}

TEST(trace_exec_begins_a_file) {
    reading_run(&reading, MALLOW_MODE_TRACE, "before_exec");
    CHECK(reading.images == 2);
    CHECK_TEXT(events_text(reading_image(&reading, reading.pid, 0), 0), "a=malloc 1");
    CHECK_TEXT(events_text(reading_image(&reading, reading.pid, 1), 0), "a=malloc 2; free a");
    CHECK(reading_image(&reading, reading.pid, 1)->process->origin == MALLOW_ORIGIN_EXEC);
}

/* ---- ends ---- */

#define EXITS(code) ((code) << 8)

SCENARIO(underscore_exit) {
    free(malloc(100));
    CHECK(malloc(30) != NULL);
    _exit(5);
}

SCENARIO(killed) {
    free(malloc(100));
    CHECK(malloc(30) != NULL);
    raise(SIGKILL);
}

SCENARIO(aborted) {
    free(malloc(100));
    CHECK(malloc(30) != NULL);
    signal(SIGABRT, SIG_DFL);
    struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    abort();
}

static void allocate_at_exit(void) {
    CHECK(malloc(30) != NULL);
}

SCENARIO(exit_handlers) {
    CHECK(atexit(allocate_at_exit) == 0);
    free(malloc(100));
    exit(6);
}

/* After the handlers, when destructors run: of the program, after those of
 * libraries are still to come. */
__attribute__((destructor)) static void last_words(void) {
    const char *last = getenv("TEST_LAST_WORDS");
    if (last != NULL && *last != 0)
        CHECK(malloc(30) != NULL);
}

SCENARIO(destructors) {
    free(malloc(100));
}

static void *exit_from_here(void *context) {
    CHECK(malloc(30) != NULL);
    exit(7);
    return context;
}

SCENARIO(exit_in_a_thread) {
    pthread_t thread;
    free(malloc(100));
    CHECK(pthread_create(&thread, NULL, exit_from_here, NULL) == 0);
    for (;;)
        pause();
}

#define MADE   "malloc 2/130, frees 1"
#define EVENTS "a=malloc 100; free a; b=malloc 30"

TEST(count_until_underscore_exit) {
    check_counted("underscore_exit", EXITS(5), MADE);
}

TEST(trace_until_underscore_exit) {
    check_traced("underscore_exit", EXITS(5), EVENTS);
}

TEST(count_until_sigkill) {
    check_counted("killed", SIGKILL, MADE);
}

TEST(trace_until_sigkill) {
    check_traced("killed", SIGKILL, EVENTS);
}

TEST(count_until_abort) {
    check_counted("aborted", SIGABRT, MADE);
}

TEST(trace_until_abort) {
    check_traced("aborted", SIGABRT, EVENTS);
}

TEST(count_in_exit_handlers) {
    check_counted("exit_handlers", EXITS(6), MADE);
}

TEST(trace_in_exit_handlers) {
    check_traced("exit_handlers", EXITS(6), EVENTS);
}

TEST(count_in_destructors) {
    CHECK(setenv("TEST_LAST_WORDS", "1", 1) == 0);
    check_counted("destructors", 0, MADE);
}

TEST(trace_in_destructors) {
    CHECK(setenv("TEST_LAST_WORDS", "1", 1) == 0);
    check_traced("destructors", 0, EVENTS);
}

TEST(count_until_exit_in_a_thread) {
    reading_make(&reading, MALLOW_MODE_COUNT);
    reading_start(&reading, "exit_in_a_thread", NULL);
    reading_finish(&reading);
    CHECK(reading.status == EXITS(7));
    struct sums sums = image_sums(reading_only(&reading));
    CHECK(sums.counter[MALLOW_FAMILY_MALLOC].allocations == 2 && sums.counter[MALLOW_FAMILY_MALLOC].bytes == 130);
    CHECK(reading_only(&reading)->process->threads == 2);
}

TEST(trace_until_exit_in_a_thread) {
    reading_make(&reading, MALLOW_MODE_TRACE);
    reading_start(&reading, "exit_in_a_thread", NULL);
    reading_finish(&reading);
    CHECK(reading.status == EXITS(7));
    CHECK_TEXT(events_text(reading_only(&reading), 1), "a=malloc 30");
}

/* ---- a filter of system calls ---- */

/* A child that allocates, of a program whose filter kills for opening a file: it would be killed for Mallow's file. */
SCENARIO(child_under_a_filter) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    free(malloc(7));
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        void *volatile block = malloc(100);
        free(block);
        _exit(7);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static void check_child_under_a_filter(enum mallow_mode mode) {
    reading_run(&reading, mode, "child_under_a_filter");
    CHECK(reading.images == 1 && reading.control->failed_processes == 1);
}

TEST(a_filter_kills_no_counted_child) {
    check_child_under_a_filter(MALLOW_MODE_COUNT);
}

TEST(a_filter_kills_no_traced_child) {
    check_child_under_a_filter(MALLOW_MODE_TRACE);
}

/* See test.h. */
#include "test.h"

#include <signal.h>
#include <sys/wait.h>

/* Only against hangs: the slowest test takes about three seconds on an idle
 * machine. */
#define TEST_SECONDS 120

struct test_list all_tests, all_scenarios;

void test_add(struct test_list *list, struct test *test) {
    *(list->last != NULL ? &list->last->next : &list->first) = test;
    list->last = test;
}

void test_failed(const char *file, int line, const char *what) {
    dprintf(2, "%s:%d: false: %s\n", file, line, what);
    _exit(1);
}

void test_texts(const char *file, int line, const char *is, const char *expected) {
    if (strcmp(is, expected) != 0) {
        dprintf(2, "%s:%d:\n  expected: %s\n  is:       %s\n", file, line, expected, is);
        _exit(1);
    }
}

static int test_run(const struct test *test) {
    int status = 0;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        alarm(TEST_SECONDS);
        test->run();
        _exit(0);
    }
    int passed = pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    /* What a failed test left behind would keep the caller's pipe open. */
    if (pid > 0)
        kill(-pid, SIGKILL);
    if (!passed)
        printf("FAILED %s%s%s\n", test->name, WIFSIGNALED(status) ? ": " : "",
               WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "");
    return passed;
}

static int scenario_run(const char *name) {
    for (const struct test *scenario = all_scenarios.first; scenario != NULL; scenario = scenario->next)
        if (strcmp(scenario->name, name) == 0) {
            scenario->run();
            return 0;
        }
    return 98;
}

/* PROGRAM [TEXT]: the tests whose names contain it. PROGRAM scenario NAME: what
 * a test starts. */
int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "scenario") == 0)
        return scenario_run(argv[2]);
    unsigned passed = 0, failed = 0;
    for (const struct test *test = all_tests.first; test != NULL; test = test->next)
        if (argc == 1 || strstr(test->name, argv[1]) != NULL)
            *(test_run(test) ? &passed : &failed) += 1;
    printf("%s: %u passed, %u failed\n", strrchr(argv[0], '/') + 1, passed, failed);
    return failed != 0;
}

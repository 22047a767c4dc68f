/* fork_storm ROUNDS: forks while other threads are in the allocator all the time. Each child allocates, some fork
 * again, some start a thread, and all report through their exit status. */
#include "target.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>

static atomic_int stop;
/* How often a hammer has struck: no round of forks is so short that none did. */
static atomic_uint strikes;

static void *hammer(void *argument) {
    unsigned seed = (unsigned)(uintptr_t)argument;
    while (!stop) {
        churn(200, seed++);
        void *block = malloc(100);
        block = realloc(block, 5000 + seed % 5000);
        free(block);
        strikes++;
    }
    return NULL;
}
static void *once(void *argument) {
    return (void *)(uintptr_t)churn(50, (unsigned)(uintptr_t)argument);
}

static int child(int round) {
    uint64_t expected = (uint64_t)(uintptr_t)once((void *)5);
    if (round % 3 == 1) {
        pthread_t thread;
        void *result;
        CHECK(pthread_create(&thread, NULL, once, (void *)5) == 0 && pthread_join(thread, &result) == 0);
        CHECK((uint64_t)(uintptr_t)result == expected);
    }
    if (round % 3 == 2) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            CHECK(churn(50, 5) == expected);
            exit(3);
        }
        int status;
        CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 3);
    }
    return 40 + round % 10;
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    int rounds = atoi(arguments[1]);
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, hammer, (void *)(i * 1000)) == 0);
    int good = 0;
    for (int round = 0; round < rounds; round++) {
        void *mine = malloc(64);
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            free(mine);
            int status = child(round);
            if (round % 2)
                _exit(status);
            exit(status);
        }
        free(mine);
        int status;
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 40 + round % 10);
        good++;
    }
    while (strikes < 100)
        sched_yield();
    stop = 1;
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    say("%d children\n", good);
    return 0;
}

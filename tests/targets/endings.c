/* build: -Wno-use-after-free */
/*
 * endings HOW N: allocates N blocks of 1000 bytes and keeps them, then ends in the way HOW. What was done before must
 * be in the recording, and the ending must be seen as without Mallow.
 */
#include "target.h"
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>

static void *hammer(void *argument) {
    for (unsigned seed = (unsigned)(uintptr_t)argument;; seed++)
        churn(1000, seed);
    return NULL;
}
static void hammers(void) {
    pthread_t thread;
    for (uintptr_t i = 0; i < 3; i++)
        CHECK(pthread_create(&thread, NULL, hammer, (void *)i) == 0);
    usleep(20000);
}
static void *leave(void *argument) {
    churn(100, 3);
    exit((int)(uintptr_t)argument);
}
static void *outlive(void *argument) {
    usleep(50000);
    churn(100, 3);
    say("the last thread\n");
    return argument;
}
static void last_words(void) {
    churn(10, 1);
    say("quick exit\n");
}
static void handler(int signal) {
    say("handler of %d\n", signal);
    _exit(33);
}

int main(int count, char **arguments) {
    CHECK(count == 3);
    const char *how = arguments[1];
    for (int i = 0, n = atoi(arguments[2]); i < n; i++)
        memset(keep(malloc(1000)), 1, 1000);
    say("allocated\n");
    pthread_t thread;
    if (!strcmp(how, "return"))
        return 17;
    if (!strcmp(how, "exit"))
        exit(18);
    if (!strcmp(how, "_exit"))
        _exit(19);
    if (!strcmp(how, "exit_group"))
        syscall(SYS_exit_group, 20);
    if (!strcmp(how, "quick_exit")) {
        at_quick_exit(last_words);
        quick_exit(21);
    }
    if (!strcmp(how, "abort"))
        abort();
    if (!strcmp(how, "segv"))
        *(volatile int *)keep(NULL) = 1;
    if (!strcmp(how, "segv_threads")) {
        hammers();
        *(volatile int *)keep(NULL) = 1;
    }
    if (!strcmp(how, "segv_handled")) {
        signal(SIGSEGV, handler);
        *(volatile int *)keep(NULL) = 1;
    }
    if (!strcmp(how, "kill"))
        kill(getpid(), SIGKILL);
    if (!strcmp(how, "kill_threads")) {
        hammers();
        kill(getpid(), SIGKILL);
    }
    if (!strcmp(how, "term"))
        raise(SIGTERM);
    if (!strcmp(how, "int"))
        raise(SIGINT);
    if (!strcmp(how, "exit_threads")) {
        hammers();
        exit(22);
    }
    if (!strcmp(how, "_exit_threads")) {
        hammers();
        _exit(23);
    }
    if (!strcmp(how, "thread_exits")) {
        CHECK(pthread_create(&thread, NULL, leave, (void *)24) == 0);
        for (;;)
            churn(100, 1);
    }
    if (!strcmp(how, "main_leaves")) {
        CHECK(pthread_create(&thread, NULL, outlive, NULL) == 0);
        pthread_exit(NULL);
    }
    if (!strcmp(how, "double_free")) {
        char *block = malloc(200);
        free(block);
        free(keep(block));
    }
    if (!strcmp(how, "stack_overflow")) {
        volatile char *room = __builtin_alloca(64 << 20);
        for (long i = (64 << 20) - 1; i >= 0; i -= 4096)
            room[i] = 1;
    }
    say("no such ending\n");
    return 99;
}

/*
 * in_turn HOW: twelve children hold 5,000,000 bytes each, one after the other, and end in the way HOW: never more is live. "together"
 * has two that hold them at the same time.
 */
#include "target.h"
#include <signal.h>
#include <sys/wait.h>

static void hold(void) {
    memset(keep(malloc(5000000)), 1, 5000000);
}

static void two_together(void) {
    int held[2], over[2];
    CHECK(pipe(held) == 0 && pipe(over) == 0);
    for (int i = 0; i < 2; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            close(over[1]);
            hold();
            CHECK(write(held[1], "h", 1) == 1);
            char end;
            CHECK(read(over[0], &end, 1) == 0);
            exit(0);
        }
    }
    char mark;
    for (int i = 0; i < 2; i++)
        CHECK(read(held[0], &mark, 1) == 1);
    usleep(300000);
    close(over[1]);
    for (int i = 0; i < 2; i++)
        CHECK(wait(NULL) > 0);
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    const char *how = arguments[1];
    if (!strcmp(how, "together")) {
        two_together();
        return 0;
    }
    if (!strcmp(how, "held")) {
        hold();
        return 0;
    }
    for (int i = 0; i < 12; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            if (!strcmp(how, "program"))
                execl("/proc/self/exe", "in_turn", "held", (char *)NULL);
            hold();
            if (!strcmp(how, "_exit"))
                _exit(0);
            if (!strcmp(how, "kill"))
                kill(getpid(), SIGKILL);
            exit(0);
        }
        CHECK(waitpid(pid, NULL, 0) == pid);
    }
    return 0;
}

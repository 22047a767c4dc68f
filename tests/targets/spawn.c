/* Every way to start another program: vfork, posix_spawn, system, popen, and a chain of execs in one process. */
#include "target.h"
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

static void ended_with(pid_t pid, int wanted) {
    int status;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == wanted);
}

int main(int count, char **arguments) {
    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    CHECK(length > 0);
    self[length] = 0;
    churn(100, (unsigned)count);
    if (count == 3 && !strcmp(arguments[1], "chain")) {
        int left = atoi(arguments[2]);
        char text[16];
        snprintf(text, sizeof text, "%d", left - 1);
        say("chain %d\n", left);
        if (left > 0)
            execl(self, self, "chain", text, (char *)NULL);
        return 21;
    }
    if (count == 2 && !strcmp(arguments[1], "child"))
        return 5;
    for (int i = 0; i < 20; i++) {
        pid_t pid = vfork();
        if (pid == 0) {
            execl(self, self, "child", (char *)NULL);
            _exit(1);
        }
        ended_with(pid, 5);
        pid = vfork();
        if (pid == 0)
            _exit(6);
        ended_with(pid, 6);
        /* A child of vfork that cannot exec says so and leaves; the parent's heap is as it was. */
        pid = vfork();
        if (pid == 0) {
            execl("/no/such/program", "x", (char *)NULL);
            _exit(8);
        }
        ended_with(pid, 8);
        char *const child[] = {self, "child", NULL};
        CHECK(posix_spawn(&pid, self, NULL, NULL, child, environ) == 0);
        ended_with(pid, 5);
        churn(20, (unsigned)i);
    }
    pid_t pid = fork();
    if (pid == 0) {
        execl(self, self, "chain", "10", (char *)NULL);
        _exit(1);
    }
    ended_with(pid, 21);
    char command[5000];
    snprintf(command, sizeof command, "'%s' child", self);
    int status = system(command);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5);
    snprintf(command, sizeof command, "'%s' chain 2; echo from the shell", self);
    FILE *pipe = popen(command, "r");
    CHECK(pipe);
    char line[100];
    while (fgets(line, sizeof line, pipe))
        say("read: %s", line);
    CHECK(pclose(pipe) == 0);
    char *const program[] = {"true", NULL};
    CHECK(posix_spawnp(&pid, "true", NULL, NULL, program, environ) == 0);
    ended_with(pid, 0);
    return 4;
}

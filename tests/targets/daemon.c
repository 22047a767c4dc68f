/* daemon FILE: becomes a daemon the old way, which goes on for a while after its parents ended and writes FILE. */
#include "target.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

int main(int count, char **arguments) {
    CHECK(count == 2);
    churn(1000, 1);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid > 0) {
        int status;
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
        say("started\n");
        return 0;
    }
    CHECK(setsid() > 0);
    pid = fork();
    CHECK(pid >= 0);
    if (pid > 0)
        _exit(0);
    char path[4096];
    snprintf(path, sizeof path, "%s.part", arguments[1]);
    int out = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0644);
    CHECK(out > 2);
    CHECK(chdir("/") == 0 || errno == EACCES);
    for (int fd = 0; fd < 3; fd++)
        close(fd);
    uint64_t sum = 0;
    for (int i = 0; i < 30; i++) {
        sum += churn(2000, (unsigned)i);
        usleep(10000);
    }
    dprintf(out, "%llu\n", (unsigned long long)sum);
    close(out);
    return rename(path, arguments[1]) ? 1 : 0;
}

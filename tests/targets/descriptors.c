/* A program that takes file descriptors as its own: looks which number comes next, closes all from 3 on, again and
 * again, opens its own files on every number, forks, and goes on. */
#include "target.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

static void numbers(const char *when) {
    int fds[3];
    for (int i = 0; i < 3; i++)
        fds[i] = open("/dev/null", O_RDONLY);
    say("%s: %d %d %d\n", when, fds[0], fds[1], fds[2]);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
}

int main(void) {
    numbers("start");
    uint64_t sum = churn(5000, 1);
    numbers("after allocations");
    closefrom(3);
    sum += churn(5000, 2);
    numbers("after closefrom");
    /* Every number is taken now: a number that someone remembers leads to the wrong file. */
    FILE *mine = tmpfile();
    CHECK(mine);
    for (int fd = 0; fd < 500; fd++)
        if (fd > 2 && fd != fileno(mine))
            CHECK(dup2(fileno(mine), fd) == fd);
    sum += churn(20000, 3);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        closefrom(3);
        churn(5000, 4);
        numbers("in the child");
        _exit(churn(5000, 4) == churn(5000, 4) ? 9 : 8);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 9);
    struct stat about;
    CHECK(fstat(fileno(mine), &about) == 0);
    say("written to my file by others: %ld\n", (long)about.st_size);
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            sum += 1;
    say("%llu\n", (unsigned long long)sum);
    return 0;
}

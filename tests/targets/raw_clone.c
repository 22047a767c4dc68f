/* Children that fork's handlers know nothing of: clone as a bare system call, without CLONE_VM. */
#include "target.h"
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

int main(void) {
    uint64_t expected = churn(500, 9);
    for (int i = 0; i < 100; i++) {
        pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        CHECK(pid >= 0);
        if (pid == 0) {
            CHECK(churn(500, 9) == expected);
            if (i % 10 == 0) {
                pid_t inner = fork();
                if (inner == 0)
                    _exit(churn(500, 9) == expected ? 12 : 13);
                int status;
                CHECK(waitpid(inner, &status, 0) == inner && WEXITSTATUS(status) == 12);
            }
            _exit(11);
        }
        /* Both go on at the same time. */
        CHECK(churn(500, 9) == expected);
        int status;
        CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 11);
    }
    struct clone_args arguments = {.exit_signal = SIGCHLD};
    pid_t pid = (pid_t)syscall(SYS_clone3, &arguments, sizeof arguments);
    CHECK(pid >= 0);
    if (pid == 0)
        _exit(churn(500, 9) == expected ? 14 : 15);
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 14);
    say("%llu\n", (unsigned long long)expected);
    return 0;
}

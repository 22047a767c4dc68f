/*
 * privileges HOW: a program whose rights change.
 *   show     prints whether it runs with secure execution (set-user-id), and its ids
 *   drop     gives up root, then allocates, forks, starts threads and execs itself
 *   chroot   locks itself into an empty directory given as the next argument, then the same without exec
 *   environ  empties its environment, then forks and execs itself without one
 *   plain    allocates and says so
 */
#include "target.h"
#include <grp.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/wait.h>

static void *work(void *argument) {
    return (void *)(uintptr_t)churn(2000, (unsigned)(uintptr_t)argument);
}

static void go_on(const char *self) {
    pthread_t threads[8];
    uint64_t sum = churn(2000, 1);
    for (uintptr_t i = 0; i < 8; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (int i = 0; i < 8; i++) {
        void *more;
        CHECK(pthread_join(threads[i], &more) == 0);
        sum += (uint64_t)(uintptr_t)more;
    }
    for (int i = 0; i < 5; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            work(NULL);
            if (self)
                execl(self, self, "plain", (char *)NULL);
            _exit(6);
        }
        int status;
        CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 6);
    }
    say("went on: %llu\n", (unsigned long long)sum);
}

int main(int count, char **arguments) {
    CHECK(count >= 2);
    const char *how = arguments[1];
    char self[4096] = "";
    CHECK(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    churn(1000, 2);
    if (!strcmp(how, "show")) {
        say("secure %lu uid %d euid %d gid %d egid %d\n", getauxval(AT_SECURE), getuid(), geteuid(), getgid(),
            getegid());
        return 8;
    }
    if (!strcmp(how, "plain")) {
        say("plain %llu\n", (unsigned long long)churn(1000, 3));
        return 6;
    }
    if (!strcmp(how, "drop")) {
        CHECK(setgroups(0, NULL) == 0 && setgid(65534) == 0 && setuid(65534) == 0 && setuid(0) < 0);
        go_on(self);
    } else if (!strcmp(how, "chroot")) {
        CHECK(count == 3 && chroot(arguments[2]) == 0 && chdir("/") == 0 && access("/proc", F_OK) < 0);
        go_on(NULL);
    } else {
        CHECK(!strcmp(how, "environ") && clearenv() == 0);
        go_on(self);
        char *const none[] = {NULL};
        char *const again[] = {self, "plain", NULL};
        execve(self, again, none);
        CHECK(!"exec");
    }
    return 5;
}

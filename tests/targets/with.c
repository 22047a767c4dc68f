/* build: -static */
/*
 * with SETTING... -- COMMAND...: execs COMMAND in a changed world. It is linked statically: nothing that is preloaded
 * gets in before COMMAND.
 *   close=N  as=BYTES  nofile=N  fsize=BYTES  stack=BYTES  nproc=N  uid=N  chroot=DIR  cd=DIR  umask=OCTAL  clearenv
 *   ignore=SIGNAL  block=SIGNAL  set=NAME=VALUE  unset=NAME  stdin=FILE  stdout=FILE  nonewprivs
 */
#include "target.h"
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

extern char **environ;

static void limit(int which, const char *value) {
    rlim_t amount = (rlim_t)atoll(value);
    struct rlimit both = {amount, amount};
    CHECK(setrlimit((__rlimit_resource_t)which, &both) == 0);
}

static void opened(int fd, const char *path, int flags) {
    int from = open(path, flags, 0644);
    CHECK(from >= 0);
    if (from != fd) {
        CHECK(dup2(from, fd) == fd);
        close(from);
    }
}

int main(int count, char **arguments) {
    int at = 1;
    for (; at < count && strcmp(arguments[at], "--"); at++) {
        char *name = arguments[at], *value = strchr(name, '=');
        if (value)
            *value++ = 0;
#define IS(text) (!strcmp(name, text) && (value || !strcmp(text, "clearenv") || !strcmp(text, "nonewprivs")))
        if (IS("close"))
            close(atoi(value));
        else if (IS("as"))
            limit(RLIMIT_AS, value);
        else if (IS("nofile"))
            limit(RLIMIT_NOFILE, value);
        else if (IS("fsize"))
            limit(RLIMIT_FSIZE, value);
        else if (IS("stack"))
            limit(RLIMIT_STACK, value);
        else if (IS("nproc"))
            limit(RLIMIT_NPROC, value);
        else if (IS("uid")) {
            gid_t group = (gid_t)atoi(value);
            CHECK(setgroups(0, NULL) == 0 && setgid(group) == 0 && setuid((uid_t)atoi(value)) == 0);
        } else if (IS("chroot"))
            CHECK(chroot(value) == 0 && chdir("/") == 0);
        else if (IS("cd"))
            CHECK(chdir(value) == 0);
        else if (IS("umask"))
            umask((mode_t)strtol(value, NULL, 8));
        else if (IS("clearenv"))
            environ = NULL;
        else if (IS("nonewprivs"))
            CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
        else if (IS("ignore"))
            CHECK(signal(atoi(value), SIG_IGN) != SIG_ERR);
        else if (IS("block")) {
            sigset_t set;
            sigemptyset(&set);
            sigaddset(&set, atoi(value));
            CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
        } else if (IS("set")) {
            char *text = strchr(value, '=');
            CHECK(text);
            *text++ = 0;
            CHECK(setenv(value, text, 1) == 0);
        } else if (IS("unset"))
            unsetenv(value);
        else if (IS("stdin"))
            opened(0, value, O_RDONLY);
        else if (IS("stdout"))
            opened(1, value, O_WRONLY);
        else
            CHECK(!"a setting");
    }
    CHECK(at + 1 < count);
    execvp(arguments[at + 1], arguments + at + 1);
    CHECK(!"exec");
}

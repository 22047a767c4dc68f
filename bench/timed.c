/*
 * timed RESULT OUTPUT COMMAND [ARGUMENT]…: run COMMAND with its standard output in the file OUTPUT, and write what it
 * took to the file RESULT.
 *
 * A profiler's start-up and its work after the target's end are not the target's time, so the profiler runs this
 * program and this program runs the target. It is linked statically: LD_PRELOAD does not reach it, and the environment
 * goes to the target as the profiler made it. (heaptrack's library takes itself out of the environment of the first
 * process that loads it.) It allocates nothing while the target runs.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double seconds(struct timeval t) {
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int open_new(const char *path) {
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0)
        fprintf(stderr, "timed: %s: %s\n", path, strerror(errno));
    return file;
}

/* The parent pauses, and shares its memory, until the new process calls execvp or _exit: only system calls may follow.
 */
static pid_t start(int output, char **command) {
    pid_t pid = vfork();
    if (pid == 0) {
        dup2(output, STDOUT_FILENO);
        execvp(command[0], command);
        _exit(127);
    }
    return pid;
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: timed RESULT OUTPUT COMMAND [ARGUMENT]...\n");
        return 2;
    }
    int result = open_new(argv[1]);
    int output = open_new(argv[2]);
    if (result < 0 || output < 0)
        return 2;
    double began = now();
    pid_t pid = start(output, argv + 3);
    if (pid < 0) {
        fprintf(stderr, "timed: vfork: %s\n", strerror(errno));
        return 2;
    }
    int status;
    struct rusage usage;
    while (wait4(pid, &status, 0, &usage) < 0) {
        if (errno != EINTR)
            return 2;
    }
    double ended = now();
    dprintf(result, "wall %.6f\nended %.6f\nuser %.6f\nsys %.6f\nmaxrss_kib %ld\nstatus %d\n", ended - began, ended,
            seconds(usage.ru_utime), seconds(usage.ru_stime), usage.ru_maxrss, status);
    if (WIFSIGNALED(status))
        return 128 + WTERMSIG(status);
    return WEXITSTATUS(status);
}

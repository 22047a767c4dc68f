/*
 * waiter RESULT COMMAND [ARGUMENT]…: runs the command and writes the kernel's ru_maxrss of it, in KiB, and its status
 * to the file RESULT. Static: no preloaded library reaches it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    pid_t pid = fork();
    if (pid == 0) {
        execvp(argv[2], argv + 2);
        _exit(127);
    }
    int status;
    struct rusage usage;
    while (pid < 0 || wait4(pid, &status, 0, &usage) < 0) {
        if (pid < 0 || errno != EINTR)
            return 2;
    }
    FILE *file = fopen(argv[1], "w");
    if (!file)
        return 2;
    fprintf(file, "%ld %d\n", usage.ru_maxrss, status);
    fclose(file);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

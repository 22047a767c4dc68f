/*
 * forks_later: forks for a line of input and prints "forked PID". The child allocates for a line, and prints "allocated"; it ends for a third
 * one. `forks_later exec PROGRAM...`: becomes that program in the child. `forks_later become PROGRAM...`: becomes it itself.
 */
#include "target.h"
#include <sys/wait.h>

int main(int count, char **arguments) {
    setbuf(stdout, NULL);
    puts("ready");
    line();
    if (count > 2 && strcmp(arguments[1], "become") == 0) {
        execvp(arguments[2], arguments + 2);
        return 1;
    }
    pid_t child = fork();
    if (child == 0) {
        if (count > 2) {
            execvp(arguments[2], arguments + 2);
            return 1;
        }
        printf("forked %d\n", (int)getpid());
        line();
        keep(malloc(100));
        puts("allocated");
        line();
        return 0;
    }
    if (count > 2)
        printf("forked %d\n", (int)child);
    waitpid(child, NULL, 0);
    line();
    return 0;
}

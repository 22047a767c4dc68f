/* Waits a second for a vforked child, then prints "done". */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int main(void)
{
    puts("ready");
    fflush(stdout);
    pid_t child = vfork();
    if (child == 0) {
        struct timespec second = {1, 0};
        nanosleep(&second, NULL);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    puts(status == 0 ? "done" : "failed");
    return 0;
}

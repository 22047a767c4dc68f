/* late_daemon: ends, and leaves a child that calls malloc for the first time when its parent is long gone. */
#include "target.h"

int main(void) {
    keep(malloc(10));
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid > 0)
        return 0;
    usleep(300000);
    churn(1000, 1);
    return 0;
}

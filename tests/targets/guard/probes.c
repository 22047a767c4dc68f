/*
 * probes HOW: a call that installs no filter of system calls, then a read past a block and one of a block that is freed.
 *   strict   the strict mode, with flags that it does not have (libseccomp's first call)
 *   filter   a filter for all threads, that is no memory
 *   prctl    the same by prctl
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static long probe(const char *how) {
    if (!strcmp(how, "strict"))
        return syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL);
    if (!strcmp(how, "filter"))
        return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, NULL);
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL);
}

int main(int count, char **arguments) {
    if (count != 2 || probe(arguments[1]) != -1)
        return 1;
    char *volatile block = malloc(64);
    volatile char sink = block[64];
    free(block);
    sink = block[3];
    (void)sink;
    puts("over");
    return 0;
}

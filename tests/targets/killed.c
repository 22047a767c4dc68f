/* `killed N COMMAND…`: runs a command, and kills it with all its threads right after the Nth of its system calls that touch another
 * process: ptrace, and writes at an offset. Prints "killed", or "ended STATUS" if it made fewer. With KILLED_IDLE, a command that has made
 * none for so many seconds gets SIGTERM, and goes on to be counted. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define OPTIONS                                                                                                        \
    (PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK)

static int touches(const struct user_regs_struct *registers) {
    return registers->orig_rax == SYS_ptrace || registers->orig_rax == SYS_pwrite64;
}

static pid_t root;

static void end(int signal) {
    (void)signal;
    kill(root, SIGTERM);
}

int main(int count, char **arguments) {
    if (count < 3)
        return 2;
    long left = atol(arguments[1]);
    const char *idle = getenv("KILLED_IDLE");
    struct sigaction action = {.sa_handler = end};
    sigaction(SIGALRM, &action, NULL);
    root = fork();
    if (root == 0) {
        raise(SIGSTOP);
        execv(arguments[2], arguments + 2);
        _exit(127);
    }
    int status;
    waitpid(root, &status, WUNTRACED);
    if (ptrace(PTRACE_SEIZE, root, 0, OPTIONS) != 0)
        return 2;
    kill(root, SIGCONT);
    for (;;) {
        pid_t tid = waitpid(-1, &status, __WALL);
        if (tid < 0 && errno == EINTR)
            continue;
        if (tid < 0)
            return 2;
        if (tid == root && (WIFEXITED(status) || WIFSIGNALED(status))) {
            printf("ended %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
            return 0;
        }
        if (!WIFSTOPPED(status))
            continue;
        int signal = WSTOPSIG(status), given = 0;
        if (signal == (SIGTRAP | 0x80)) {
            struct __ptrace_syscall_info info;
            struct user_regs_struct registers;
            int is_request = ptrace(PTRACE_GETREGS, tid, 0, &registers) == 0 &&
                             ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof info, &info) > 0 && touches(&registers) &&
                             info.op == PTRACE_SYSCALL_INFO_EXIT;
            if (is_request && idle != NULL)
                alarm((unsigned)atoi(idle));
            if (is_request && --left == 0) {
                /* What the call set going goes on for a while. */
                const char *wait = getenv("KILLED_AFTER_US");
                struct timespec pause = {0, wait == NULL ? 0 : atol(wait) * 1000};
                nanosleep(&pause, NULL);
                kill(root, SIGKILL);
                /* Its first thread ends last. */
                while ((tid = waitpid(-1, &status, __WALL)) > 0 && (tid != root || WIFSTOPPED(status))) {
                }
                puts("killed");
                return 0;
            }
        } else if (status >> 16 == 0) {
            given = signal;
        }
        ptrace(status >> 16 == PTRACE_EVENT_STOP && signal != SIGTRAP ? PTRACE_LISTEN : PTRACE_SYSCALL, tid, 0, given);
    }
}

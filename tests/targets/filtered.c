/*
 * filtered HOW: under a seccomp filter before mallow attaches. Prints "ready", and for each line of input allocates and frees a
 * thousand blocks, and prints how many.
 *   default   much like the profile of containers: what administers the machine fails with EPERM, clone3 with ENOSYS
 *   tight     allows what the program itself needs; anything else fails with EPERM
 *   kill      memfd_create ends the process
 *   argument  mapping a file at 64 KiB and further into it ends the process
 *   restart   restart_syscall ends the process, and a thread waits in calls with a timeout
 *   thread    as kill, but one thread alone has the filter; it waits
 *   strict    strict mode
 *   later     no filter at first; a line installs one that ends the process for what malloc and this program do not need
 */
#include "target.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define NUMBER     BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define RETURN(k)  BPF_STMT(BPF_RET | BPF_K, (k))
#define IS(call)   BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_##call, 0, 1)
#define ALLOW(c)   IS(c), RETURN(SECCOMP_RET_ALLOW)
#define REFUSE(c)  IS(c), RETURN(SECCOMP_RET_ERRNO | EPERM)
#define KILL(c)    IS(c), RETURN(SECCOMP_RET_KILL_PROCESS)
#define INSTALL(f) install((f), sizeof(f) / sizeof *(f))

static void install(struct sock_filter *filter, size_t count) {
    struct sock_fprog program = {(unsigned short)count, filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static void as_containers(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
        RETURN(SECCOMP_RET_KILL_PROCESS),
        NUMBER,
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1), /* x32 */
        RETURN(SECCOMP_RET_ERRNO | EPERM),
        REFUSE(mount),
        REFUSE(umount2),
        REFUSE(pivot_root),
        REFUSE(ptrace),
        REFUSE(reboot),
        REFUSE(swapon),
        REFUSE(swapoff),
        REFUSE(kexec_load),
        REFUSE(init_module),
        REFUSE(finit_module),
        REFUSE(delete_module),
        REFUSE(bpf),
        REFUSE(perf_event_open),
        REFUSE(unshare),
        REFUSE(setns),
        REFUSE(userfaultfd),
        REFUSE(keyctl),
        REFUSE(add_key),
        REFUSE(process_vm_readv),
        REFUSE(process_vm_writev),
        REFUSE(settimeofday),
        REFUSE(clock_settime),
        IS(clone3),
        RETURN(SECCOMP_RET_ERRNO | ENOSYS),
        /* New namespaces. */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_clone, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x7e020000, 0, 1),
        RETURN(SECCOMP_RET_ERRNO | EPERM),
        RETURN(SECCOMP_RET_ALLOW),
    };
    INSTALL(filter);
}

/* By syscall(), as libseccomp does. */
static void tightly(unsigned otherwise) {
    struct sock_filter filter[] = {
        NUMBER,
        ALLOW(read),
        ALLOW(write),
        ALLOW(brk),
        ALLOW(mmap),
        ALLOW(munmap),
        ALLOW(mremap),
        ALLOW(madvise),
        ALLOW(futex),
        ALLOW(exit),
        ALLOW(exit_group),
        ALLOW(rt_sigreturn),
        ALLOW(restart_syscall),
        RETURN(otherwise),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0);
}

static void no_memory_files(void) {
    struct sock_filter filter[] = {NUMBER, KILL(memfd_create), RETURN(SECCOMP_RET_ALLOW)};
    INSTALL(filter);
}

static void by_argument(void) {
    struct sock_filter filter[] = {
        NUMBER,
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_mmap, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[5])),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 64 << 10, 0, 1),
        RETURN(SECCOMP_RET_KILL_PROCESS),
        RETURN(SECCOMP_RET_ALLOW),
    };
    INSTALL(filter);
}

static void no_restarts(void) {
    struct sock_filter filter[] = {NUMBER, KILL(restart_syscall), RETURN(SECCOMP_RET_ALLOW)};
    INSTALL(filter);
}

static volatile int is_waiting;

/* In a call that the kernel has go on by restart_syscall. */
static void *wait_long(void *limited) {
    if (limited)
        no_memory_files();
    is_waiting = 1;
    for (;;)
        poll(NULL, 0, 100000);
    return NULL;
}

static void start_thread(void *limited) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, wait_long, limited) == 0);
    while (!is_waiting)
        sched_yield();
}

static unsigned allocate(void) {
    unsigned count = 0;
    for (; count < 1000; count++) {
        void *block = keep(malloc(100 + count));
        CHECK(block);
        free(block);
    }
    return count;
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    const char *how = arguments[1];
    int later = !strcmp(how, "later");
    allocate(); /* so that no more memory is asked for in strict mode */
    if (!strcmp(how, "default"))
        as_containers();
    else if (!strcmp(how, "tight"))
        tightly(SECCOMP_RET_ERRNO | EPERM);
    else if (!strcmp(how, "kill"))
        no_memory_files();
    else if (!strcmp(how, "argument"))
        by_argument();
    else if (!strcmp(how, "thread"))
        start_thread(arguments);
    else if (!strcmp(how, "restart")) {
        no_restarts();
        start_thread(NULL);
    } else if (!strcmp(how, "strict"))
        CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
    else
        CHECK(later);
    say("ready\n");
    while (line()) {
        unsigned done = allocate();
        if (later) {
            tightly(SECCOMP_RET_KILL_PROCESS);
            /* More than any buffer holds. */
            for (int i = 0; i < 300; i++)
                done += allocate();
            churn(20000, 7);
        }
        later = 0;
        say("%u\n", done);
    }
    syscall(SYS_exit, 0);
}

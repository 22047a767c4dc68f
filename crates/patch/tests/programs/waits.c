/* A thread in each system call that signal(7) lists as interruptible. Prints "ready", runs until its standard input ends,
 * and prints the calls that failed with EINTR, each with how often. Exits with 0 if there is none. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LONG = 1000 };

static int pipe_empty[2], pipe_full[2], sockets_timed[2], sockets_full[2], sockets_plain[2], sockets_many[2];
static int listening, epoll, file_locked, inotify, events, timer, signals, message_queue, semaphores, terminal;
static mqd_t posix_queue, posix_full;
static char fifo[64], locked[64];
static uint32_t futex_word;
static sem_t never;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static aio_context_t aio;
static pid_t child;
static char buffer[1 << 16];

static sigset_t usr1(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    return set;
}

static struct timespec in(long seconds)
{
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_sec += seconds;
    return at;
}

/* Each returns -1 with errno, as its call does. */
#define CALL(name, ...) \
    static long name(void) { __VA_ARGS__ }
CALL(read_pipe, char c; return read(pipe_empty[0], &c, 1);)
CALL(write_pipe, return write(pipe_full[1], buffer, sizeof buffer);)
CALL(read_terminal, char c; return read(terminal, &c, 1);)
CALL(open_fifo, return open(fifo, O_RDONLY);)
CALL(wait_child, return waitpid(child, NULL, 0);)
CALL(waitid_child, siginfo_t i; return waitid(P_PID, child, &i, WEXITED | WNOWAIT);)
CALL(receive, char c; return recv(sockets_plain[0], &c, 1, 0);)
CALL(receive_timed, char c; return recv(sockets_timed[0], &c, 1, 0);)
CALL(receive_message_timed, char c; struct iovec v = {&c, 1}; struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
     return recvmsg(sockets_timed[0], &m, 0);)
CALL(receive_many, char c; struct iovec v = {&c, 1}; struct mmsghdr m = {.msg_hdr = {.msg_iov = &v, .msg_iovlen = 1}};
     return recvmmsg(sockets_many[0], &m, 1, 0, NULL);)
CALL(send_timed, return send(sockets_full[0], buffer, sizeof buffer, 0);)
CALL(accept_plain, return accept(listening, NULL, NULL);)
CALL(lock_file, int f = open(locked, O_RDWR); return flock(f, LOCK_EX);)
CALL(lock_range, struct flock l = {.l_type = F_WRLCK}; return fcntl(file_locked, F_SETLKW, &l);)
CALL(receive_queue, char c[64]; return mq_receive(posix_queue, c, sizeof c, NULL);)
CALL(receive_queue_timed, char c[64]; struct timespec t = in(LONG);
     return mq_timedreceive(posix_queue, c, sizeof c, NULL, &t);)
CALL(send_queue, char c[64] = ""; return mq_send(posix_full, c, sizeof c, 1);)
CALL(futex_wait, return syscall(SYS_futex, &futex_word, FUTEX_WAIT, 0, NULL, NULL, 0);)
CALL(futex_wait_timed, struct timespec t = {LONG, 0};
     return syscall(SYS_futex, &futex_word, FUTEX_WAIT, 0, &t, NULL, 0);)
CALL(wait_semaphore, return sem_wait(&never);)
CALL(wait_semaphore_timed, struct timespec t = in(LONG); return sem_timedwait(&never, &t);)
CALL(wait_mutex, return pthread_mutex_lock(&mutex);)
static long wait_condition(void)
{
    static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&own);
    struct timespec t = in(LONG);
    int error = pthread_cond_timedwait(&condition, &own, &t);
    pthread_mutex_unlock(&own);
    errno = error;
    return error ? -1 : 0;
}
CALL(wait_signal, sigset_t s = usr1(); return sigwaitinfo(&s, NULL);)
CALL(wait_signal_timed, sigset_t s = usr1(); struct timespec t = {LONG, 0}; return sigtimedwait(&s, NULL, &t);)
CALL(wait_epoll, struct epoll_event e; return epoll_wait(epoll, &e, 1, LONG * 1000);)
CALL(wait_epoll_forever, struct epoll_event e; return epoll_wait(epoll, &e, 1, -1);)
CALL(wait_epoll_masked, struct epoll_event e; sigset_t s; sigfillset(&s); return epoll_pwait(epoll, &e, 1, -1, &s);)
CALL(wait_poll, struct pollfd p = {pipe_empty[0], POLLIN, 0}; return poll(&p, 1, LONG * 1000);)
CALL(wait_poll_masked, struct pollfd p = {pipe_empty[0], POLLIN, 0}; sigset_t s; sigemptyset(&s);
     return ppoll(&p, 1, NULL, &s);)
CALL(wait_select, fd_set f; FD_ZERO(&f); FD_SET(pipe_empty[0], &f); struct timeval t = {LONG, 0};
     return select(pipe_empty[0] + 1, &f, NULL, NULL, &t);)
CALL(wait_select_masked, fd_set f; FD_ZERO(&f); FD_SET(pipe_empty[0], &f); sigset_t s; sigemptyset(&s);
     return pselect(pipe_empty[0] + 1, &f, NULL, NULL, NULL, &s);)
CALL(receive_sysv, struct { long type; char c[8]; } m; return msgrcv(message_queue, &m, 8, 9, 0);)
CALL(operate_semaphore, struct sembuf s = {0, -1, 0}; return semop(semaphores, &s, 1);)
CALL(operate_semaphore_timed, struct sembuf s = {0, -1, 0}; struct timespec t = {LONG, 0};
     return semtimedop(semaphores, &s, 1, &t);)
CALL(sleep_nanoseconds, struct timespec t = {LONG, 0}; return nanosleep(&t, NULL);)
CALL(sleep_clock, struct timespec t = in(LONG);
     int e = clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &t, NULL); errno = e; return e ? -1 : 0;)
CALL(sleep_microseconds, return usleep(LONG * 1000000u);)
CALL(get_events, struct io_event e; return syscall(SYS_io_getevents, aio, 1, 1, &e, NULL);)
CALL(read_inotify, char c[512]; return read(inotify, c, sizeof c);)
CALL(read_eventfd, uint64_t v; return read(events, &v, sizeof v);)
CALL(read_timer, uint64_t v; return read(timer, &v, sizeof v);)
CALL(read_signals, struct signalfd_siginfo i; return read(signals, &i, sizeof i);)
CALL(wait_pause, return pause();)
CALL(wait_suspended, sigset_t s; sigemptyset(&s); return sigsuspend(&s);)

static struct call {
    const char *name;
    long (*call)(void);
    long interrupted;
    volatile pid_t thread;
} calls[] = {
#define NAME(name) {#name, name, 0, 0}
    NAME(read_pipe), NAME(write_pipe), NAME(read_terminal), NAME(open_fifo), NAME(wait_child), NAME(waitid_child),
    NAME(receive), NAME(receive_timed), NAME(receive_message_timed), NAME(receive_many), NAME(send_timed),
    NAME(accept_plain), NAME(lock_file), NAME(lock_range), NAME(receive_queue), NAME(receive_queue_timed),
    NAME(send_queue), NAME(futex_wait), NAME(futex_wait_timed), NAME(wait_semaphore), NAME(wait_semaphore_timed),
    NAME(wait_mutex), NAME(wait_condition), NAME(wait_signal), NAME(wait_signal_timed), NAME(wait_epoll),
    NAME(wait_epoll_forever), NAME(wait_epoll_masked), NAME(wait_poll), NAME(wait_poll_masked), NAME(wait_select),
    NAME(wait_select_masked), NAME(receive_sysv), NAME(operate_semaphore), NAME(operate_semaphore_timed),
    NAME(sleep_nanoseconds), NAME(sleep_clock), NAME(sleep_microseconds), NAME(get_events), NAME(read_inotify),
    NAME(read_eventfd), NAME(read_timer), NAME(read_signals), NAME(wait_pause), NAME(wait_suspended),
};

static volatile int ending;

static void ignore(int signal)
{
    (void)signal;
}

static void *run(void *argument)
{
    struct call *call = argument;
    call->thread = (pid_t)syscall(SYS_gettid);
    for (;;) {
        errno = 0;
        long result = call->call();
        if (result == -1 && errno == EINTR) {
            __atomic_add_fetch(&call->interrupted, 1, __ATOMIC_RELAXED);
        } else if (!ending) {
            /* It must wait for ever: an end for another reason is a fault of this program. */
            fprintf(stderr, "%s returned %ld: %s\n", call->name, result, strerror(errno));
            exit(2);
        }
    }
}

static void must(long result, const char *what)
{
    if (result < 0) {
        perror(what);
        exit(2);
    }
}

static void fill(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    while (write(fd, buffer, sizeof buffer) > 0) {
    }
    while (write(fd, buffer, 1) > 0) {
    }
    fcntl(fd, F_SETFL, flags);
}

int main(int argc, char **argv)
{
    (void)argc;
    const char *place = argv[1];
    sigset_t set = usr1();
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    /* Without SA_RESTART: it ends the call of the thread that takes it. */
    struct sigaction action = {.sa_handler = ignore};
    sigaction(SIGUSR2, &action, NULL);
    must(pipe(pipe_empty), "pipe");
    must(pipe(pipe_full), "pipe");
    fill(pipe_full[1]);
    struct timeval limit = {LONG, 0};
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets_timed), "socketpair");
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets_full), "socketpair");
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets_plain), "socketpair");
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets_many), "socketpair");
    must(setsockopt(sockets_timed[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), "SO_RCVTIMEO");
    fill(sockets_full[0]);
    must(setsockopt(sockets_full[0], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit), "SO_SNDTIMEO");
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path, sizeof name.sun_path, "%s/s", place);
    must(listening = socket(AF_UNIX, SOCK_STREAM, 0), "socket");
    must(bind(listening, (void *)&name, sizeof name), "bind");
    must(listen(listening, 1), "listen");
    snprintf(fifo, sizeof fifo, "%s/f", place);
    must(mkfifo(fifo, 0600), "mkfifo");
    snprintf(locked, sizeof locked, "%s/l", place);
    must(file_locked = open(locked, O_RDWR | O_CREAT, 0600), "lock file");
    must(flock(file_locked, LOCK_EX), "flock");
    must(terminal = posix_openpt(O_RDWR | O_NOCTTY), "terminal");
    must(grantpt(terminal) | unlockpt(terminal), "terminal");
    must(terminal = open(ptsname(terminal), O_RDWR | O_NOCTTY), "terminal");
    must(epoll = epoll_create1(0), "epoll_create1");
    must(inotify = inotify_init(), "inotify");
    must(events = eventfd(0, 0), "eventfd");
    must(timer = timerfd_create(CLOCK_MONOTONIC, 0), "timerfd");
    must(signals = signalfd(-1, &set, 0), "signalfd");
    must(message_queue = msgget(IPC_PRIVATE, 0600), "msgget");
    must(semaphores = semget(IPC_PRIVATE, 1, 0600), "semget");
    struct mq_attr small = {.mq_maxmsg = 1, .mq_msgsize = 64};
    char queue[64];
    snprintf(queue, sizeof queue, "/mallow-waits-%d", getpid());
    must(posix_queue = mq_open(queue, O_RDWR | O_CREAT, 0600, &small), "mq_open");
    mq_unlink(queue);
    must(posix_full = mq_open(queue, O_RDWR | O_CREAT, 0600, &small), "mq_open");
    mq_unlink(queue);
    must(mq_send(posix_full, buffer, 64, 1), "mq_send");
    must(syscall(SYS_io_setup, 1, &aio), "io_setup");
    sem_init(&never, 0, 0);
    pthread_mutex_lock(&mutex);
    int alive[2], holds[2];
    must(pipe(alive), "pipe");
    must(pipe(holds), "pipe");
    child = fork();
    must(child, "fork");
    if (child == 0) {
        /* Holds a range of the file, and ends with its parent. */
        struct flock range = {.l_type = F_WRLCK};
        fcntl(file_locked, F_SETLK, &range);
        close(alive[1]);
        close(holds[1]);
        close(holds[0]);
        char c;
        while (read(alive[0], &c, 1) < 0) {
        }
        _exit(0);
    }
    close(holds[1]);
    char c;
    while (read(holds[0], &c, 1) < 0) {
    }
    enum { COUNT = sizeof calls / sizeof *calls };
    for (int i = 0; i < COUNT; i++) {
        pthread_t thread;
        must(-pthread_create(&thread, NULL, run, &calls[i]), "pthread_create");
    }
    for (int i = 0; i < COUNT; i++) {
        while (!calls[i].thread) {
            usleep(1000);
        }
        printf("%d %s\n", calls[i].thread, calls[i].name);
    }
    puts("ready");
    fflush(stdout);
    /* The main thread waits, too. */
    while (read(0, &c, 1) != 0) {
        if (errno == EINTR) {
            puts("main 1");
        }
    }
    ending = 1;
    long total = 0;
    for (int i = 0; i < COUNT; i++) {
        long interrupted = __atomic_load_n(&calls[i].interrupted, __ATOMIC_RELAXED);
        total += interrupted;
        if (interrupted) {
            printf("%s %ld\n", calls[i].name, interrupted);
        }
    }
    msgctl(message_queue, IPC_RMID, NULL);
    semctl(semaphores, 0, IPC_RMID);
    fflush(stdout);
    _exit(total ? 1 : 0);
}

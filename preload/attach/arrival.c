/* The descriptor of a run directory to which no path leads: received, used, closed. */
#include "attach/arrival.h"
#include "arch.h"
#include "base/attachment.h"
#include "base/target.h"

#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>

/* Mallow sends it at once, where it was not killed. */
static const struct timeval patience = {10, 0};

static int directory = -1;
static struct stat identity;

static int is_directory(int fd) {
    struct stat now;
    return SYS_CALL2(SYS_fstat, fd, &now) == 0 && now.st_dev == identity.st_dev && now.st_ino == identity.st_ino;
}

/* The program may have closed the descriptor, as daemons do, and another file may have its number: what is compared
 * is opened anew, and nobody else knows that number. */
static long open_in_directory(const char *path, int flags, unsigned mode) {
    long at = SYS_CALL4(SYS_openat, directory, ".", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (at < 0)
        return at;
    long fd = is_directory((int)at) ? SYS_CALL4(SYS_openat, at, path, flags | O_CLOEXEC, mode) : -2; /* ENOENT */
    sys_close((int)at);
    return fd;
}

/* High: a program that opens files gets the numbers that it would have, and select() has room below 1,024. */
static int move_up(int fd) {
    uint64_t most = sys_limit(RLIMIT_NOFILE);
    long moved = SYS_CALL3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, most < 1024 ? most / 4 * 3 : 1000);
    if (moved < 0)
        return fd;
    sys_close(fd);
    return (int)moved;
}

static int receive(int socket) {
    char byte;
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } rights;
    struct iovec text = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &text, .msg_iovlen = 1, .msg_control = &rights, .msg_controllen = sizeof rights};
    int fd = -1;
    if (SYS_CALL3(SYS_recvmsg, socket, &message, MSG_CMSG_CLOEXEC) == 1 &&
        message.msg_controllen >= CMSG_LEN(sizeof fd) && rights.header.cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(&rights.header), sizeof fd);
    return fd;
}

int arrival_await(void) {
    int ends[2];
    if (SYS_CALL4(SYS_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return -1;
    SYS_CALL6(SYS_setsockopt, ends[1], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience, 0);
    __atomic_store_n(&mallow_attachment.socket, (uint32_t)ends[0] + 1, __ATOMIC_RELEASE);
    int fd = receive(ends[1]);
    __atomic_store_n(&mallow_attachment.socket, 0, __ATOMIC_RELEASE);
    sys_close(ends[0]);
    sys_close(ends[1]);
    if (fd < 0)
        return -1;
    directory = move_up(fd);
    if (SYS_CALL2(SYS_fstat, directory, &identity) != 0) {
        sys_close(directory);
        directory = -1;
        return -1;
    }
    target.open = open_in_directory;
    return 0;
}

void arrival_leave(void) {
    if (directory >= 0 && is_directory(directory))
        sys_close(directory);
    directory = -1;
}

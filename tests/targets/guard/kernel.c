/* Buffers that the kernel accesses for the program: `kernel CALL HOW`, where HOW is behind (the end of the block), freed, or
 * right; odd and one: five bytes and one byte behind a block of 30, which has 2 bytes beside it in its pages as a rule. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { BLOCK = 4096, BEYOND = 100, ODD = 30 };

static int ends[2], file, zero;

__attribute__((noinline)) static ssize_t culprit(const char *call, char *block, size_t size) {
    struct iovec parts[2] = {{block, 10}, {block + 10, size - 10}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    char text[2 * BLOCK] = {0};
    int receives = strncmp(call, "recv", 4) == 0;
    ssize_t result = -2;
    if (receives && write(ends[0], text, size) != (ssize_t)size)
        return -3;
#define CASE(name, ...)                                                                                                \
    if (strcmp(call, #name) == 0)                                                                                      \
        result = name(__VA_ARGS__);
    CASE(read, zero, block, size)
    CASE(write, ends[0], block, size)
    CASE(pread, zero, block, size, 0)
    CASE(pread64, zero, block, size, 0)
    CASE(pwrite, file, block, size, 0)
    CASE(pwrite64, file, block, size, 0)
    CASE(readv, zero, parts, 2)
    CASE(writev, ends[0], parts, 2)
    CASE(preadv, zero, parts, 2, 0)
    CASE(preadv64, zero, parts, 2, 0)
    CASE(pwritev, file, parts, 2, 0)
    CASE(pwritev64, file, parts, 2, 0)
    CASE(recv, ends[1], block, size, 0)
    CASE(send, ends[0], block, size, 0)
    CASE(recvfrom, ends[1], block, size, 0, NULL, NULL)
    CASE(sendto, ends[0], block, size, 0, NULL, 0)
    CASE(recvmsg, ends[1], &message, 0)
    CASE(sendmsg, ends[0], &message, 0)
    __asm__ volatile("" ::: "memory");
    return result;
}

int main(int argc, char **argv) {
    char name[] = "/tmp/mallow-kernel-XXXXXX";
    if (argc != 3 || socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 || (file = mkstemp(name)) < 0 ||
        unlink(name) != 0 || (zero = open("/dev/zero", O_RDONLY)) < 0)
        return 1;
    int is_odd = strcmp(argv[2], "odd") == 0, is_one = strcmp(argv[2], "one") == 0;
    size_t bytes = is_odd || is_one ? ODD : BLOCK;
    char *block = malloc(bytes);
    memset(block, 7, bytes);
    size_t size = strcmp(argv[2], "behind") == 0 ? bytes + BEYOND : bytes + (is_odd ? 5 : is_one);
    if (strcmp(argv[2], "freed") == 0)
        free(block);
    ssize_t result = culprit(argv[1], block, size);
    if (is_odd || is_one)
        free(block);
    puts(result == (ssize_t)size ? "whole" : "not whole");
    return 0;
}

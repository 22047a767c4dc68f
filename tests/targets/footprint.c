/* Programs whose memory has a known shape: `footprint WHAT ORACLE`. At the end of most, ORACLE is run with this process's id, and its
 * output goes to the file `oracle`. */
#include "target.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

#define PAGE ((size_t)4096)

static void ask(const char *oracle) {
    char pid[24];
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    char *arguments[] = {(char *)"/usr/bin/python3", (char *)oracle, pid, NULL};
    posix_spawn_file_actions_t actions;
    CHECK(posix_spawn_file_actions_init(&actions) == 0);
    CHECK(posix_spawn_file_actions_addopen(&actions, 1, "oracle", O_WRONLY | O_CREAT | O_TRUNC, 0600) == 0);
    pid_t child;
    CHECK(posix_spawn(&child, arguments[0], &actions, NULL, arguments, environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void nap(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&time, &time) != 0)
        ;
}

static char *map(size_t bytes, int flags) {
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

/* 1 TB of which two pages are touched, one read, and 1000 blocks of 10,000 bytes. */
static void reserve(void) {
    char *at = map((size_t)1 << 40, MAP_NORESERVE);
    madvise(at, (size_t)1 << 40, MADV_NOHUGEPAGE);
    at[5 * PAGE] = at[((size_t)1 << 40) - 1] = 1;
    *(volatile char *)&at[9 * PAGE];
    for (int i = 0; i < 1000; i++)
        memset(keep(malloc(10000)), 1, 10000);
}

static pthread_barrier_t deep;

static void *go_deep(void *unused) {
    volatile char frame[1 << 20];
    for (size_t at = 0; at < sizeof frame; at += PAGE)
        frame[at] = 1;
    pthread_barrier_wait(&deep);
    pause();
    return unused;
}

/* 16 threads with a megabyte of their stacks each. */
static void stacks(void) {
    pthread_barrier_init(&deep, NULL, 17);
    for (int i = 0; i < 16; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, go_deep, NULL) == 0);
    }
    pthread_barrier_wait(&deep);
}

/* 40 MB that a child shares, of which it writes a quarter. */
static void forked(void) {
    size_t bytes = 40 << 20;
    char *block = keep(malloc(bytes));
    memset(block, 1, bytes);
    int done[2];
    CHECK(pipe(done) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char byte;
        close(done[1]);
        for (size_t at = 0; at < bytes / 4; at += PAGE)
            block[at] = 2;
        keep(malloc(100000));
        CHECK(read(done[0], &byte, 1) == 0);
        _exit(0);
    }
    close(done[0]);
    nap(3000);
    close(done[1]);
    CHECK(waitpid(child, NULL, 0) == child);
}

/* Reports in the file with the memory of this process: a watch knows it from its first sample on. */
static int reported(void) {
    static char text[1 << 20];
    ssize_t length = 0, got;
    int count = 0, fd = open("reports", O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && (got = read(fd, text + length, sizeof text - 1 - (size_t)length)) > 0)
        length += got;
    text[length] = 0;
    for (char *at = text; (at = strstr(at, "\"grows\"")) != NULL; at++)
        count++;
    if (fd >= 0)
        close(fd);
    return count;
}

static void grow(size_t bytes) {
    for (size_t done = 0; done < bytes; done += 100000)
        memset(keep(malloc(100000)), 1, 100000);
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    alarm(120);
    if (strcmp(argv[1], "reserve") == 0) {
        reserve();
    } else if (strcmp(argv[1], "stacks") == 0) {
        stacks();
    } else if (strcmp(argv[1], "locked") == 0) {
        char *at = map(4 << 20, 0);
        grow(8 << 20);
        say("%s\n", mlock(at, 4 << 20) == 0 ? "locked" : "not allowed");
    } else if (strcmp(argv[1], "forked") == 0) {
        forked();
    } else if (strcmp(argv[1], "killed") == 0) {
        grow(48 << 20);
        nap(3000);
        grow(1 << 20);
        kill(getpid(), SIGKILL);
    } else if (strcmp(argv[1], "watched") == 0) {
        /* Grows after a report, and ends when there is one of all of it: the first one may have begun before. No estimate of its heap
         * is as much as the heap and what is mapped. */
        memset(map(32 << 20, 0), 1, 32 << 20);
        grow(8 << 20);
        while (reported() == 0)
            nap(20);
        grow(48 << 20);
        int before = reported();
        while (reported() < before + 2)
            nap(20);
    } else if (strcmp(argv[1], "peak") == 0) {
        char *block = keep(malloc(64 << 20));
        memset(block, 1, 64 << 20);
        nap(3000);
        free(block);
        nap(50);
    } else if (strcmp(argv[1], "exec") == 0) {
        grow(32 << 20);
        nap(3000);
        execl(argv[0], argv[0], "small", argv[2], (char *)NULL);
        return 99;
    } else {
        grow(1 << 20);
    }
    if (strcmp(argv[1], "forked") != 0 && strcmp(argv[2], "/dev/null") != 0)
        ask(argv[2]);
    return 0;
}

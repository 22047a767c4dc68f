/* Attached to while it runs. `attached calls`: makes calls of its own between two lines of input, and prints how many.
 * `attached storm THREADS`: threads that allocate without end, one that starts others, and three that wait in system calls
 * which the kernel must restart; prints its progress and the last error of a wait for each line of input. */
#include "target.h"
#include <linux/futex.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>

static void *volatile sink;
/* Unknown to the compiler, which refuses such calls. */
static volatile size_t huge = SIZE_MAX / 4;

static void calls(void) {
    unsigned long allocations = 0, frees = 0, foreign = 0;
    char *old = malloc(1000), *other = malloc(2000);
    strcpy(old, "from before");
    sink = other;
    puts("ready");
    line();
    for (int i = 0; i < 1000; i++) {
        void *block = malloc(100 + (size_t)i % 7);
        allocations++;
        sink = block;
        free(block);
        frees++;
    }
    for (int i = 0; i < 10; i++) {
        sink = calloc(3, 50);
        allocations++;
    }
    char *block = realloc(NULL, 77);
    block = realloc(block, 5000);
    allocations += 2;
    free(block);
    frees += 2;
    /* Blocks from before: never a free of what was recorded. */
    old = realloc(old, 100000);
    allocations++;
    foreign++;
    if (strcmp(old, "from before") != 0)
        abort();
    free(other);
    foreign++;
    void *aligned = NULL;
    if (posix_memalign(&aligned, 64, 640) != 0)
        abort();
    sink = aligned;
    sink = memalign(8, 80);
    allocations += 2;
    sink = strdup("hello");
    allocations++;
    /* Fails, and leaves the block as it was. */
    char *kept = malloc(300);
    allocations++;
    if (realloc(kept, huge) != NULL)
        abort();
    printf("%lu %lu %lu\n", allocations, frees, foreign);
    line();
    free(old);
    free(kept);
}

static atomic_ulong work;
static atomic_int failed;

static void *allocates(void *seed) {
    char *blocks[64] = {0};
    unsigned x = (unsigned)(size_t)seed * 2654435761u + 1;
    for (;;) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        char **block = &blocks[x % 64];
        size_t size = 1 + x / 64 % 900;
        if (x & 1 << 30) {
            *block = realloc(*block, size);
        } else {
            free(*block);
            *block = x & 1 << 29 ? calloc(1, size) : x & 1 << 28 ? memalign(32, size) : malloc(size);
        }
        if (*block == NULL)
            abort();
        memset(*block, (int)x, size);
        atomic_fetch_add_explicit(&work, 1, memory_order_relaxed);
    }
    return NULL;
}

static void *brief(void *argument) {
    free(malloc(100));
    return argument;
}

static void *starts(void *argument) {
    for (;;) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, brief, NULL) == 0)
            pthread_join(thread, NULL);
    }
    return argument;
}

static void *waits_for_events(void *argument) {
    int fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event;
    for (;;)
        if (epoll_wait(fd, &event, 1, 100000000) < 0)
            failed = errno;
    return argument;
}

static void *sleeps(void *argument) {
    struct timespec time = {100000, 0};
    for (;;)
        if (nanosleep(&time, NULL) != 0)
            failed = errno;
    return argument;
}

static void *waits_for_futex(void *argument) {
    static int word;
    struct timespec time = {100000, 0};
    for (;;)
        if (syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &time, NULL, 0) != 0)
            failed = errno;
    return argument;
}

int main(int count, char **arguments) {
    setbuf(stdout, NULL);
    if (count == 2) {
        calls();
        return 0;
    }
    int threads = count == 3 ? atoi(arguments[2]) : 0;
    void *(*const others[])(void *) = {starts, waits_for_events, sleeps, waits_for_futex};
    pthread_t thread;
    for (long i = 0; i < threads; i++)
        if (pthread_create(&thread, NULL, allocates, (void *)i) != 0)
            abort();
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (pthread_create(&thread, NULL, others[i], NULL) != 0)
            abort();
    puts("ready");
    while (line())
        printf("%lu %d\n", work, failed);
    return 0;
}

/* The raw system calls, as promised in sys.h. */
#include "arch.h"
#include "base/sys.h"
#include "base/wire.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define PAGE 4096

static const char *decimal(uint64_t value) {
    static char text[32];
    memset(text, '#', sizeof text);
    *text_decimal(text, value) = 0;
    return text;
}

TEST(text_decimal_writes_all_numbers) {
    CHECK_TEXT(decimal(0), "0");
    CHECK_TEXT(decimal(7), "7");
    CHECK_TEXT(decimal(10), "10");
    CHECK_TEXT(decimal(4294967296), "4294967296");
    CHECK_TEXT(decimal(UINT64_MAX), "18446744073709551615");
}

TEST(text_copy_cuts_to_the_size) {
    char text[8] = "#######";
    CHECK(text_copy(text, "abc", sizeof text) == 3 && strcmp(text, "abc") == 0 && text[4] == '#');
    CHECK(text_copy(text, "1234567", sizeof text) == 7 && strcmp(text, "1234567") == 0);
    CHECK(text_copy(text, "123456789", sizeof text) == 7 && strcmp(text, "1234567") == 0);
    CHECK(text_copy(text, "", sizeof text) == 0 && text[0] == 0);
    text[1] = '#';
    CHECK(text_copy(text, "abc", 1) == 0 && text[0] == 0 && text[1] == '#');
}

static char *pages(int count, int protection) {
    char *at = mmap(NULL, (size_t)count * PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

TEST(readable_is_what_can_be_read) {
    static const uint64_t constant = 5;
    uint64_t local = 0;
    CHECK(sys_readable((uint64_t)&local));
    CHECK(sys_readable((uint64_t)&constant));
    CHECK(sys_readable((uint64_t)pages(1, PROT_READ)));
    CHECK(!sys_readable(0));
    CHECK(!sys_readable(8));
    CHECK(!sys_readable(UINT64_MAX));
    CHECK(!sys_readable(0x8000000000000000));
    CHECK(!sys_readable((uint64_t)pages(1, PROT_NONE)));
}

TEST(readable_looks_at_all_eight_bytes) {
    uint64_t at = (uint64_t)pages(3, PROT_READ);
    CHECK(sys_readable(at + 2 * PAGE - 4));
    CHECK(munmap((void *)(at + 2 * PAGE), PAGE) == 0);
    CHECK(sys_readable(at + PAGE - 4));
    CHECK(sys_readable(at + 2 * PAGE - 8));
    CHECK(!sys_readable(at + 2 * PAGE - 7));
    CHECK(!sys_readable(at + 2 * PAGE));
}

TEST(readable_changes_no_signal_mask) {
    sigset_t before, after, all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, NULL, &before);
    CHECK(sys_readable((uint64_t)&all));
    sigprocmask(SIG_SETMASK, NULL, &after);
    CHECK(memcmp(&before, &after, 8) == 0);
}

/* A sparse file of one page, mapped as two. */
static char *short_file(int *fd) {
    *fd = memfd_create("short", 0);
    CHECK(*fd >= 0 && sys_truncate(*fd, PAGE) == 0);
    char *at = sys_map(*fd, 2 * PAGE, 1);
    CHECK(at != NULL);
    return at;
}

static void check_populate(void) {
    int fd;
    struct stat status;
    char *at = short_file(&fd);
    at[100] = 7; /* what is there stays */
    CHECK(sys_populate(at + 90, 20) == 0 && at[100] == 7);
    char *other = short_file(&fd);
    CHECK(fstat(fd, &status) == 0 && status.st_blocks == 0);
    CHECK(sys_populate(other + PAGE - 1, 1) == 0);
    CHECK(fstat(fd, &status) == 0 && status.st_blocks == PAGE / 512);
    CHECK(sys_populate(at + PAGE - 1, 2) < 0); /* beyond the file's end: writing there were a SIGBUS */
    CHECK(sys_populate(pages(1, PROT_NONE), 1) < 0);
}

TEST(populate_makes_pages_or_fails) {
    check_populate();
}

/* What a kernel before 5.14 answers to the advice. */
static void refuse_madvise(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    CHECK(madvise(pages(1, PROT_READ), PAGE, MADV_NORMAL) == -1 && errno == EINVAL);
}

/* The old way writes a zero to the first byte of each page: it is for pages
 * that nobody wrote to yet. */
TEST(populate_does_it_on_old_kernels_too) {
    int fd;
    struct stat status;
    refuse_madvise();
    char *at = short_file(&fd);
    CHECK(sys_populate(at + 90, 20) == 0);
    CHECK(fstat(fd, &status) == 0 && status.st_blocks == PAGE / 512);
    CHECK(sys_populate(at + PAGE - 1, 2) < 0);
    CHECK(sys_populate(pages(1, PROT_NONE), 1) < 0);
}

TEST(wiped_pages_read_zero_in_a_child) {
    uint64_t *wiped = (uint64_t *)pages(1, PROT_READ | PROT_WRITE),
             *kept = (uint64_t *)pages(1, PROT_READ | PROT_WRITE);
    *wiped = *kept = UINT64_MAX;
    CHECK(sys_wipe_on_fork(wiped, PAGE) == 0);
    int status;
    pid_t pid = fork();
    if (pid == 0)
        _exit(*wiped == 0 && *kept == UINT64_MAX ? 0 : 1);
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    CHECK(*wiped == UINT64_MAX);
    pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (pid == 0)
        _exit(*wiped == 0 && *kept == UINT64_MAX ? 0 : 1);
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

TEST(memory_is_zero_and_given_back) {
    char *at = sys_memory(3 * PAGE);
    CHECK(at != NULL && at[0] == 0 && at[3 * PAGE - 1] == 0);
    at[5] = 1;
    sys_unmap(at, 3 * PAGE);
    CHECK(!sys_readable((uint64_t)at));
    CHECK(sys_memory(SIZE_MAX / 2) == NULL);
}

TEST(files_are_opened_read_and_mapped) {
    char path[] = "sys_test_XXXXXX", text[16] = "";
    int made = mkstemp(path);
    CHECK(made >= 0 && write(made, "contents", 8) == 8);
    long fd = sys_open(path, O_RDWR, 0);
    uint64_t bytes;
    CHECK(fd >= 0 && fcntl((int)fd, F_GETFD) == FD_CLOEXEC);
    CHECK(sys_size((int)fd, &bytes) == 0 && bytes == 8);
    CHECK(sys_read((int)fd, text, sizeof text) == 8 && memcmp(text, "contents", 8) == 0);
    char *shared = sys_map((int)fd, 8, 1);
    const char *private = sys_map((int)fd, 8, 0);
    CHECK(shared != NULL && private != NULL);
    shared[0] = 'C';
    CHECK(pread(made, text, 1, 0) == 1 && text[0] == 'C' && private[0] == 'C');
    CHECK(sys_truncate((int)fd, 3) == 0);
    CHECK(sys_size((int)fd, &bytes) == 0 && bytes == 3);
    CHECK(sys_close((int)fd) == 0);
    CHECK(fcntl((int)fd, F_GETFD) == -1);
    CHECK(unlink(path) == 0);
}

TEST(errors_are_results_and_leave_errno_alone) {
    uint64_t bytes = 5;
    char text[4];
    errno = 77;
    CHECK(sys_open("no/such/file", O_RDONLY, 0) == -ENOENT);
    CHECK(sys_close(-1) == -EBADF);
    CHECK(sys_read(-1, text, 1) == -EBADF);
    CHECK(sys_size(-1, &bytes) == -EBADF && bytes == 0);
    CHECK(sys_truncate(-1, 0) == -EBADF);
    CHECK(sys_readlink("no/such/file", text, sizeof text) == -ENOENT);
    CHECK(SYS_CALL2(SYS_getcwd, text, 1) == -ERANGE);
    CHECK(sys_map(-1, PAGE, 1) == NULL);
    CHECK(sys_memory(SIZE_MAX / 2) == NULL);
    CHECK(sys_wipe_on_fork(NULL, PAGE) < 0);
    CHECK(!sys_readable(0));
    CHECK(errno == 77);
}

TEST(system_calls_return_the_same_as_the_c_library) {
    char ours[4096], theirs[4096];
    struct rlimit limit;
    struct timespec before, after;
    CHECK(sys_getpid() == getpid() && sys_getppid() == getppid() && sys_gettid() == gettid());
    CHECK(getcwd(theirs, sizeof theirs) != NULL);
    CHECK(SYS_CALL2(SYS_getcwd, ours, sizeof ours) == (long)strlen(theirs) + 1 && strcmp(ours, theirs) == 0);
    long length = sys_readlink("/proc/self/exe", ours, sizeof ours);
    CHECK(length > 0 && length == readlink("/proc/self/exe", theirs, sizeof theirs));
    CHECK(memcmp(ours, theirs, (size_t)length) == 0);
    limit = (struct rlimit){12345, 23456};
    CHECK(setrlimit(RLIMIT_CORE, &limit) == 0 || getrlimit(RLIMIT_CORE, &limit) == 0);
    CHECK(sys_limit(RLIMIT_CORE) == limit.rlim_cur);
    CHECK(sys_limit(1000) == UINT64_MAX);
    clock_gettime(CLOCK_MONOTONIC, &before);
    uint64_t now = sys_now_ns();
    clock_gettime(CLOCK_MONOTONIC, &after);
    CHECK(now >= (uint64_t)before.tv_sec * 1000000000 + (uint64_t)before.tv_nsec);
    CHECK(now <= (uint64_t)after.tv_sec * 1000000000 + (uint64_t)after.tv_nsec);
}

static volatile sig_atomic_t handled;

static void handle(int number) {
    handled = number;
}

TEST(blocked_signals_wait) {
    signal(SIGUSR1, handle);
    uint64_t mask = sys_block_signals();
    raise(SIGUSR1);
    CHECK(handled == 0);
    sys_restore_signals(mask);
    CHECK(handled == SIGUSR1);
    handled = 0;
    raise(SIGUSR1);
    CHECK(handled == SIGUSR1);
}

static uint32_t word;

static void *set_and_wake(void *context) {
    while (__atomic_load_n((uint32_t *)context, __ATOMIC_SEQ_CST) == 0)
        sys_futex_wait((uint32_t *)context, 0, 1);
    __atomic_store_n(&word, 1, __ATOMIC_SEQ_CST);
    sys_futex_wake(&word);
    return NULL;
}

TEST(a_futex_wait_distinguishes_a_timeout_from_a_wake) {
    uint32_t go = 0;
    pthread_t thread;
    CHECK(sys_futex_wait(&word, 1, 60000) == 0); /* it is something else already */
    CHECK(sys_futex_wait(&word, 0, 1) == 1);
    CHECK(pthread_create(&thread, NULL, set_and_wake, &go) == 0);
    __atomic_store_n(&go, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&word, __ATOMIC_SEQ_CST) == 0)
        CHECK(sys_futex_wait(&word, 0, 60000) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

/* How many ranges begin here, and the bytes of the last one of them. */
static int listed(const void *start, uint64_t *bytes) {
    int count = 0;
    for (const struct mallow_own *list = &sys_own_list; list != NULL; list = (const struct mallow_own *)list->next)
        for (uint32_t i = 0; i < MALLOW_OWN_RANGES; i++)
            if (list->range[i].start == (uint64_t)start && list->range[i].bytes != 0) {
                *bytes = list->range[i].bytes;
                count++;
            }
    return count;
}

TEST(own_memory_is_listed_until_it_is_given_back) {
    uint64_t bytes = 0;
    char *one = sys_memory(PAGE + 1), *slots = pages(1, PROT_NONE);
    CHECK(one != NULL && listed(one, &bytes) == 1 && bytes == 2 * PAGE);
    sys_own(slots, PAGE, MALLOW_OWN_SLOTS);
    CHECK(listed(slots, &bytes) == 1 && bytes == (PAGE | MALLOW_OWN_SLOTS));
    sys_memory_free(one, PAGE + 1);
    CHECK(listed(one, &bytes) == 0);
    /* More than a list has room for; the next list is in it itself. */
    char *many[3 * MALLOW_OWN_RANGES];
    for (uint32_t i = 0; i < 3 * MALLOW_OWN_RANGES; i++)
        CHECK((many[i] = sys_memory(PAGE)) != NULL);
    for (uint32_t i = 0; i < 3 * MALLOW_OWN_RANGES; i++)
        CHECK(listed(many[i], &bytes) == 1 && bytes == PAGE);
    CHECK(sys_own_list.next != 0 && listed((const void *)sys_own_list.next, &bytes) == 1 && bytes == PAGE);
    for (uint32_t i = 0; i < 3 * MALLOW_OWN_RANGES; i++) {
        sys_memory_free(many[i], PAGE);
        CHECK(listed(many[i], &bytes) == 0);
    }
}

static void *take_and_give(void *result) {
    for (int i = 0; i < 2000; i++) {
        uint64_t bytes;
        char *mine = sys_memory(PAGE);
        if (mine == NULL || listed(mine, &bytes) != 1)
            return result;
        sys_memory_free(mine, PAGE);
    }
    return NULL;
}

TEST(threads_list_their_memory_at_once) {
    pthread_t threads[4];
    void *failed = NULL;
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, take_and_give, threads) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], &failed) == 0 && failed == NULL);
}

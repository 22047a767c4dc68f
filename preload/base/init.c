/*
 * Beginning and ending: which policy serves this process, and what fork does to it.
 *
 * The entry points start out at functions that initialise and then call again, so there is no test for it afterwards.
 */
#include "base/entries.h"
#include "base/exec.h"
#include "base/reader.h"
#include "base/real.h"
#include "base/target.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 4096

struct target target;
uint32_t target_lock;

/* Alone on its page, see target.h. */
static _Alignas(PAGE) union {
    uintptr_t alive;
    char page[PAGE];
} alive_page;
extern uintptr_t image_alive __attribute__((alias("alive_page")));

const struct policy *recording = &no_policy;

/* The policy whose entry functions serve while nothing is lost. */
static const struct policy *serving = &no_policy;

/* Events are counted as lost, and no more; or not even that. */
static int losing, over;

void target_over(void) {
    if (recording->over != NULL)
        recording->over(MALLOW_OVER_NOT);
    else
        policy_install(&no_policy);
    __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
}

int target_is_over(void) {
    return __atomic_load_n(&over, __ATOMIC_RELAXED) || __atomic_load_n(&losing, __ATOMIC_RELAXED);
}

void target_lose(void) {
    if (recording->lost == NULL || target_is_over())
        return;
    __atomic_store_n(&losing, 1, __ATOMIC_RELAXED);
    policy_install(recording->lost);
}

void target_forked(void) {
    target_lock = 0;
    if (losing && !over) {
        losing = 0;
        policy_install(serving);
    }
    thread_forked();
    if (recording->forked != NULL)
        recording->forked();
    target.process = NULL;
    image_alive = 0;
}

/* Finds a variable in a block of NUL-terminated settings; NULL when it is not there. */
static const char *setting(const char *at, const char *end, const char *name) {
    size_t length = strlen(name);
    while (at < end) {
        if (strncmp(at, name, length) == 0 && at[length] == '=')
            return at + length + 1;
        at += strlen(at) + 1;
    }
    return NULL;
}

static int is_one_of(const char *value, const char *one, const char *other) {
    return value != NULL && (strcmp(value, one) == 0 || strcmp(value, other) == 0);
}

/* The run directory, and what the environment says of allocators above malloc. A call can come before the C library has an
 * environment: the kernel's copy serves then. */
static int find_directory(void) {
    const char *value = getenv(MALLOW_DIR_VARIABLE);
    const char *python = getenv("PYTHONMALLOC"), *zend = getenv("USE_ZEND_ALLOC");
    static char text[16384];
    if (value == NULL) {
        long fd = sys_open("/proc/self/environ", O_RDONLY, 0);
        long length = fd < 0 ? -1 : sys_read((int)fd, text, sizeof text - 1);
        if (fd >= 0)
            sys_close((int)fd);
        const char *end = length > 0 ? text + length : text;
        value = setting(text, end, MALLOW_DIR_VARIABLE);
        python = setting(text, end, "PYTHONMALLOC");
        zend = setting(text, end, "USE_ZEND_ALLOC");
    }
    target.settings = (is_one_of(python, "malloc", "malloc_debug") ? MALLOW_SETTING_PYTHON_MALLOC : 0) |
                      (is_one_of(zend, "0", "0") ? MALLOW_SETTING_ZEND_MALLOC : 0);
    return value != NULL && value[0] == '/' && text_copy(target.named, value, sizeof target.named) == strlen(value);
}

static long control_in(const char *directory, int flags) {
    char path[MALLOW_DIRECTORY + 16];
    size_t length = text_copy(path, directory, MALLOW_DIRECTORY);
    memcpy(path + length, "/control", 9);
    return sys_open(path, flags | O_NOFOLLOW, 0);
}

/* A mount namespace may have a /dev/shm of its own. Where it has mallow's process in its /proc, and that may be looked into, the
 * directory is below that process's root: its name tells the pid. */
long target_open_control(char directory[MALLOW_DIRECTORY], int flags) {
    text_copy(directory, target.named, MALLOW_DIRECTORY);
    long fd = control_in(directory, flags);
    if (fd != -2) /* ENOENT */
        return fd;
    static const char begin[] = "/mallow-";
    const char *pid = strrchr(target.named, '/');
    if (pid == NULL || strncmp(pid, begin, sizeof begin - 1) != 0)
        return fd;
    for (pid += sizeof begin - 1; *pid == '0';)
        pid++;
    size_t digits = strspn(pid, "0123456789");
    if (digits == 0 || digits > 10 || strlen(target.named) + digits + 16 > MALLOW_DIRECTORY)
        return fd;
    char *at = directory + text_copy(directory, "/proc/", MALLOW_DIRECTORY);
    memcpy(at, pid, digits);
    at += digits;
    memcpy(at, "/root", 5);
    text_copy(at + 5, target.named, MALLOW_DIRECTORY - (size_t)(at + 5 - directory));
    long other = control_in(directory, flags);
    return other < 0 ? fd : other;
}

/* Mallow's is the first of LD_PRELOAD. */
static void find_library(void) {
    const char *value = getenv("LD_PRELOAD");
    size_t length = value == NULL ? 0 : strcspn(value, ": ");
    if (length >= sizeof target.library || length == 0 || value[0] != '/')
        return;
    memcpy(target.library, value, length);
    target.library[length] = 0;
}

static struct mallow_control *open_control(void) {
    long fd = target_open_control(target.directory, O_RDWR);
    if (fd < 0)
        return NULL;
    uint64_t bytes;
    struct mallow_control *control = NULL;
    if (sys_size((int)fd, &bytes) == 0 && bytes >= sizeof *control)
        control = sys_map((int)fd, PAGE, 1);
    sys_close((int)fd);
    if (control == NULL)
        return NULL;
    if (control->magic == MALLOW_CONTROL_MAGIC && control->version == MALLOW_WIRE_VERSION &&
        control->epoch != MALLOW_EPOCH_OVER && control->mode >= MALLOW_MODE_COUNT &&
        control->mode <= MALLOW_MODE_DORMANT && policies[control->mode] != NULL && control->max_depth > 0 &&
        control->max_depth <= MALLOW_DEPTH_LIMIT && control->small_ring_words > 2 * control->max_depth &&
        (policies[control->mode]->reads_later || !reader_is_gone(control)))
        return control;
    sys_unmap(control, PAGE);
    return NULL;
}

/* 0: not yet; 1: under way in one thread; 2: done. */
static int started;
static _Thread_local char starting __attribute__((tls_model("initial-exec")));

/* Chooses the policy. Returns 0 when called again from within itself: the call is then dlsym's own. */
COLD static int start(void) {
    int expected = 0;
    if (starting)
        return 0;
    if (!__atomic_compare_exchange_n(&started, &expected, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
        while (__atomic_load_n(&started, __ATOMIC_ACQUIRE) != 2)
            sys_futex_wait((uint32_t *)&started, 1, 10);
        return 1;
    }
    starting = 1;
    int saved_errno = errno;
    real_resolve();
    /* More look-ups follow: what they allocate is the real allocator's by now, and not the arena's. */
    policy_install(&no_policy);
    if (find_directory()) {
        find_library();
        target.control = open_control();
    }
    if (target.control != NULL) {
        sys_wipe_on_fork(&alive_page, sizeof alive_page);
        image_alive = UINTPTR_MAX;
        serving = recording = policies[target.control->mode];
        if (recording->setup != NULL)
            serving = recording->setup();
    }
    policy_install(serving);
    starting = 0;
    __atomic_store_n(&started, 2, __ATOMIC_RELEASE);
    sys_futex_wake((uint32_t *)&started);
    errno = saved_errno;
    return 1;
}

/* glibc's pthread_atfork is no dynamic symbol: it is linked into each library, and calls this one. musl has no such
 * thing. Each is weak, so that one library loads with either. */
extern int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *owner)
    __attribute__((weak));
extern void *__dso_handle HIDDEN;
#pragma weak pthread_atfork

static void in_child(void) {
    target_forked();
}

/* Before the constructors of other rooms. */
__attribute__((constructor(101))) static void load(void) {
    start();
    exec_setup();
    if (target.control == NULL)
        return;
    thread_setup();
    if (__register_atfork != NULL)
        __register_atfork(recording->fork_begins, recording->fork_ended, in_child, &__dso_handle);
    else if (pthread_atfork != NULL)
        pthread_atfork(recording->fork_begins, recording->fork_ended, in_child);
    if (recording->loaded != NULL)
        recording->loaded();
}

/* ---- until initialised ---- */

#define X(name, result, parameters, arguments)                                                                         \
    COLD static result start_##name parameters {                                                                       \
        return (start() ? real : bootstrap).name arguments;                                                            \
    }
MALLOW_ENTRIES(X)
#undef X

struct allocator real = {
#define X(name, result, parameters, arguments) .name = start_##name,
    MALLOW_ENTRIES(X)
#undef X
};

/* A call of real.malloc has initialised, or the block is dlsym's own, from the arena. */
static void *none_done(void *block, size_t size) {
    (void)size;
    return block;
}

COLD static void first_free(void *block) {
    (start() ? policy.free : bootstrap.free)(block);
}

#define X(name, result, parameters, arguments)                                                                         \
    COLD static result first_##name parameters {                                                                       \
        return (start() ? policy.name : bootstrap.name)arguments;                                                      \
    }                                                                                                                  \
    static result none_##name parameters {                                                                             \
        return real.name arguments;                                                                                    \
    }
MALLOW_OTHER(X)
#undef X

struct policy policy = {.malloc_done = none_done,
                        .calloc_done = none_done,
                        .free = first_free,
#define X(name, result, parameters, arguments) .name = first_##name,
                        MALLOW_OTHER(X)
#undef X
};

const struct policy no_policy = {.malloc_done = none_done,
                                 .calloc_done = none_done,
#define X(name, result, parameters, arguments) .name = none_##name,
                                 MALLOW_OTHER(X)
#undef X
};

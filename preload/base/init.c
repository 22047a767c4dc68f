/*
 * Beginning and ending: which policy serves this process, and what fork does to it.
 *
 * The entry points start out at functions that initialise and then call again, so there is no test for it afterwards.
 */
#include "arch.h"
#include "base/attachment.h"
#include "base/entries.h"
#include "base/exec.h"
#include "base/filter.h"
#include "base/reader.h"
#include "base/real.h"
#include "base/target.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

/* What stands behind "NAME=" in a setting of this name; else NULL. */
static const char *value_of(const char *setting, const char *name) {
    size_t length = strlen(name);
    return strncmp(setting, name, length) == 0 && setting[length] == '=' ? setting + length + 1 : NULL;
}

/* Finds a variable in a block of NUL-terminated settings; NULL when it is not there. */
static const char *variable_between(const char *at, const char *end, const char *name) {
    for (const char *value; at < end; at += strlen(at) + 1)
        if ((value = value_of(at, name)) != NULL)
            return value;
    return NULL;
}

static int is_one_of(const char *value, const char *one, const char *other) {
    return value != NULL && (strcmp(value, one) == 0 || strcmp(value, other) == 0);
}

/* What the dynamic linker gives to constructors; NULL before them, and with musl, which has set environ by then. */
static char **given;

/* As getenv: the C library's environment may not be there yet. */
static const char *variable(const char *name) {
    const char *value = NULL;
    for (char **at = environ != NULL ? environ : given; at != NULL && *at != NULL && value == NULL; at++)
        value = value_of(*at, name);
    return value;
}

/* The run directory, and what the environment says of allocators above malloc. A call can come before the C library
 * has an environment: the kernel's copy serves then; and in an attached process, where another thread may change the
 * C library's. */
static int find_directory(void) {
    int late = attachment_is_late();
    const char *value = late ? NULL : variable(MALLOW_DIR_VARIABLE), *python = late ? NULL : variable("PYTHONMALLOC");
    const char *zend = late ? NULL : variable("USE_ZEND_ALLOC");
    static char text[16384];
    if (value == NULL) {
        long fd = sys_open("/proc/self/environ", O_RDONLY, 0);
        long length = fd < 0 ? -1 : sys_read((int)fd, text, sizeof text - 1);
        if (fd >= 0)
            sys_close((int)fd);
        const char *end = length > 0 ? text + length : text;
        value = late ? NULL : variable_between(text, end, MALLOW_DIR_VARIABLE);
        python = variable_between(text, end, "PYTHONMALLOC");
        zend = variable_between(text, end, "USE_ZEND_ALLOC");
    }
    target.settings = (is_one_of(python, "malloc", "malloc_debug") ? MALLOW_SETTING_PYTHON_MALLOC : 0) |
                      (is_one_of(zend, "0", "0") ? MALLOW_SETTING_ZEND_MALLOC : 0);
    return value != NULL && value[0] == '/' && text_copy(target.named, value, sizeof target.named) == strlen(value);
}

/* Mallow's is the first of LD_PRELOAD. */
static void find_library(void) {
    const char *value = variable("LD_PRELOAD");
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
        control = sys_map((int)fd, sizeof *control, 1);
    sys_close((int)fd);
    if (control == NULL)
        return NULL;
    if (control->magic == MALLOW_CONTROL_MAGIC && control->version == MALLOW_WIRE_VERSION &&
        control->epoch != MALLOW_EPOCH_OVER && control->mode >= MALLOW_MODE_COUNT &&
        control->mode <= MALLOW_MODE_DORMANT && policies[control->mode] != NULL && control->max_depth > 0 &&
        control->max_depth <= MALLOW_DEPTH_LIMIT && control->small_ring_words > 2 * control->max_depth &&
        (policies[control->mode]->reads_later || !reader_is_gone(control)))
        return control;
    sys_unmap(control, sizeof *control);
    return NULL;
}

int target_join(void) {
    target.control = open_control();
    if (target.control == NULL)
        return -1;
    sys_wipe_on_fork(&image_alive, ARCH_PAGE);
    image_alive = UINTPTR_MAX;
    recording = policies[target.control->mode];
    policy_install(recording->setup != NULL ? recording->setup() : recording);
    return 0;
}

/* glibc's pthread_atfork is no dynamic symbol: it is linked into each library, and calls this one. musl has no such
 * thing. Each is weak, so that one library loads with either. */
extern int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *owner)
    __attribute__((weak));
extern void *__dso_handle HIDDEN;
#pragma weak pthread_atfork

void target_watch_forks(void (*begins)(void), void (*ended)(void)) {
    if (__register_atfork != NULL)
        __register_atfork(begins, ended, target_forked, &__dso_handle);
}

static void fork_begins(void) {
    if (recording != NULL && recording->fork_begins != NULL)
        recording->fork_begins();
}

static void fork_ended(void) {
    if (recording != NULL && recording->fork_ended != NULL)
        recording->fork_ended();
}

static void fork_made_child(void) {
    if (recording != NULL)
        target_forked();
}

/* musl's pthread_atfork takes memory by malloc, that is from us: it is called while nothing is counted, before anybody
 * knows what recording there will be. */
static void musl_watch_forks(void) {
    if (__register_atfork == NULL && pthread_atfork != NULL)
        pthread_atfork(fork_begins, fork_ended, fork_made_child);
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
    real_resolve(&real);
    /* More look-ups follow: what they allocate is the real allocator's by now, and not the arena's. */
    policy_install(&no_policy);
    /* Where it finds no symbol, dlsym allocates a message before glibc 2.34, which the next look-up frees. */
    thread_find_id();
    filter_setup();
    if (find_directory()) {
        find_library();
        musl_watch_forks();
        target_join();
    }
    starting = 0;
    __atomic_store_n(&started, 2, __ATOMIC_RELEASE);
    sys_futex_wake((uint32_t *)&started);
    errno = saved_errno;
    return 1;
}

/* Before the constructors of other rooms, and with glibc before those of all other libraries, the C library's among
 * them (-z initfirst): what they allocate with an allocator inside counts, and threads that they start come later. */
__attribute__((constructor(101))) static void library_loaded(int count, char **arguments, char **environment) {
    (void)count;
    (void)arguments;
    if (environ == NULL)
        given = environment;
    start();
    if (attachment_is_late())
        return;
    exec_setup();
    if (target.control == NULL)
        return;
    thread_setup();
    target_watch_forks(recording->fork_begins, recording->fork_ended);
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

static void *none_calloc_done(void *block, size_t count, size_t size) {
    (void)count;
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
                        .calloc_done = none_calloc_done,
                        .free = first_free,
#define X(name, result, parameters, arguments) .name = first_##name,
                        MALLOW_OTHER(X)
#undef X
};

const struct policy no_policy = {.malloc_done = none_done,
                                 .calloc_done = none_calloc_done,
#define X(name, result, parameters, arguments) .name = none_##name,
                                 MALLOW_OTHER(X)
#undef X
};

static int passes_through;

void policy_install(const struct policy *from) {
    __atomic_store_n(&policy.hooked, from->hooked, __ATOMIC_RELEASE);
    if (passes_through)
        from = &no_policy;
#define X(name, result, parameters, arguments) __atomic_store_n(&policy.name, from->name, __ATOMIC_RELEASE);
    X(malloc_done, , , )
    X(calloc_done, , , )
    X(malloc_due, , , )
    X(calloc_due, , , )
    X(free_owned, , , )
    X(usable_size_owned, , , )
    MALLOW_OTHER(X)
    __atomic_store_n(&policy.free, from->free != NULL ? from->free : real.free, __ATOMIC_RELEASE);
#undef X
}

void policy_pass_through(void) {
    passes_through = 1;
    struct policy now = policy;
    policy_install(&now);
}

void policy_remove(enum mallow_over why) {
    (void)why;
    policy_install(&no_policy);
}

/*
 * The exec family. Each function leads to the C library's own; before that three files are opened and closed again: the
 * control file and the library, as the new image will do, and the program. Where one of the first cannot be, or the
 * environment leads to neither, or no library is loaded into the program, it is noted in the control page, which this
 * image has mapped. Where the library cannot be opened, the new image gets an environment that does not name it: its
 * dynamic linker would complain in the program's own standard error.
 *
 * It runs between fork and exec, and after vfork in the parent's memory: it takes no lock and writes nothing but its
 * stack and the control page.
 */
#include "base/exec.h"
#include "arch.h"
#include "base/filter.h"
#include "base/target.h"
#include "base/unlinked.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <spawn.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/*
 * The C library's, by name, parameters, arguments and environment, the one that does the same with another environment,
 * and whether it searches PATH.
 */
#define FAMILY(X)                                                                                                      \
    X(execve, (const char *path, char *const argv[], char *const envp[]), (path, argv, envp), envp, execve, 0)         \
    X(execv, (const char *path, char *const argv[]), (path, argv), environ, execve, 0)                                 \
    X(execvp, (const char *path, char *const argv[]), (path, argv), environ, execvpe, 1)                               \
    X(execvpe, (const char *path, char *const argv[], char *const envp[]), (path, argv, envp), envp, execvpe, 1)
#define SPAWNS(X) X(posix_spawn, 0) X(posix_spawnp, 1)
#define SPAWN_PARAMETERS                                                                                               \
    (pid_t *restrict pid, const char *restrict path, const posix_spawn_file_actions_t *restrict actions,               \
     const posix_spawnattr_t *restrict attributes, char *const argv[restrict], char *const envp[restrict])

static struct {
#define X(name, parameters, arguments, environment, other, searches) int(*name) parameters;
    FAMILY(X)
#undef X
#define X(name, searches) int(*name) SPAWN_PARAMETERS;
    SPAWNS(X)
#undef X
    int (*fexecve)(int fd, char *const argv[], char *const envp[]);
} next;

static void look_up(void *pointer, const char *name) {
    void *symbol = dlsym(RTLD_NEXT, name);
    memcpy(pointer, &symbol, sizeof symbol);
}

void exec_setup(void) {
#define X(name, parameters, arguments, environment, other, searches) look_up(&next.name, #name);
    FAMILY(X)
#undef X
#define X(name, searches) look_up(&next.name, #name);
    SPAWNS(X)
#undef X
    look_up(&next.fexecve, "fexecve");
}

/* A call may come from another library's constructor, before this one's. */
#define NEXT(name)                                                                                                     \
    if (UNLIKELY(next.name == NULL)) {                                                                                 \
        exec_setup();                                                                                                  \
        if (next.name == NULL) {                                                                                       \
            errno = ENOSYS;                                                                                            \
            return -1;                                                                                                 \
        }                                                                                                              \
    }

/* Errors that are no word on where the file is, as of a full table of descriptors, do not count. */
static int is_out_of_reach(long fd) {
    if (fd >= 0)
        sys_close((int)fd);
    return fd == -ENOENT || fd == -ENOTDIR || fd == -EACCES || fd == -EROFS || fd == -EPERM;
}

static const char preload_name[] = "LD_PRELOAD=";

static int is_preload(const char *setting) {
    return strncmp(setting, preload_name, sizeof preload_name - 1) == 0;
}

/* Where a setting of LD_PRELOAD names the library, or NULL. */
static const char *library_in(const char *setting) {
    size_t length = strlen(target.library);
    for (const char *at = setting + sizeof preload_name - 1; (at = strstr(at, target.library)) != NULL; at += length)
        if ((at[-1] == '=' || at[-1] == ':' || at[-1] == ' ') &&
            (at[length] == 0 || at[length] == ':' || at[length] == ' '))
            return at;
    return NULL;
}

/* What an environment without the library takes of the stack. Larger ones are passed on as they are. */
struct extent {
    size_t entries; /* with NULL at the end; 0: it is passed on as it is */
    size_t preload; /* bytes */
};
enum { MOST_ENTRIES = 1024, MOST_PRELOAD = 2048 };

/* That of an environment that names the library, where it cannot be opened. */
static struct extent extent_without_library(char *const envp[], int lacks_library) {
    struct extent extent = {0, 0};
    size_t entries = 1;
    for (; lacks_library && envp != NULL && *envp != NULL; envp++, entries++)
        if (is_preload(*envp) && library_in(*envp) != NULL) {
            if (extent.preload != 0)
                return (struct extent){0, 0};
            extent.preload = strlen(*envp) + 1;
        }
    if (extent.preload != 0 && extent.preload <= MOST_PRELOAD && entries <= MOST_ENTRIES)
        extent.entries = entries;
    return extent;
}

/* Copies an environment of that extent, but for the library. */
static void copy_without_library(char *const envp[], char **entries, char *preload) {
    for (; *envp != NULL; envp++) {
        const char *at = is_preload(*envp) ? library_in(*envp) : NULL;
        if (at == NULL) {
            *entries++ = *envp;
            continue;
        }
        const char *rest = at + strlen(target.library);
        if (*rest != 0)
            rest++;
        else if (at[-1] != '=')
            at--;
        size_t before = (size_t)(at - *envp);
        if (before == sizeof preload_name - 1 && *rest == 0)
            continue;
        memcpy(preload, *envp, before);
        memcpy(preload + before, rest, strlen(rest) + 1);
        *entries++ = preload;
    }
    *entries = NULL;
}

/* Whether the new image's linker cannot open the library. */
static int lacks_library(void) {
    return target.library[0] != 0 && !filter_is(FILTER_FORBIDS_FILES) &&
           is_out_of_reach(sys_open(target.library, O_PATH, 0));
}

/* Whether an environment leads a new image to a run, this one or that of a mallow below, and to the library. */
static int leads_to_a_run(char *const envp[]) {
    static const char directory[] = MALLOW_DIR_VARIABLE "=";
    int has_directory = 0, has_library = target.library[0] == 0;
    for (; envp != NULL && *envp != NULL && !(has_directory && has_library); envp++) {
        has_directory |= strncmp(*envp, directory, sizeof directory - 1) == 0 && (*envp)[sizeof directory - 1] != 0;
        has_library |= is_preload(*envp) && strstr(*envp, target.library) != NULL;
    }
    return has_directory && has_library;
}

/* Whether the new image can open the control file, which it writes to: a mount may be read-only. Capabilities by
 * which another user than its owner may open it do not outlive the exec, but for ambient ones. */
static int reaches_control(void) {
    char directory[MALLOW_DIRECTORY];
    long fd = target_open_control(directory, O_RDWR);
    if (fd < 0)
        return !is_out_of_reach(fd);
    uint32_t user = sys_geteuid(), owner;
    int may = user == 0 || sys_owner((int)fd, &owner) != 0 || owner == user ||
              arch_syscall(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_DAC_OVERRIDE, 0, 0, 0) == 1;
    sys_close((int)fd);
    return may;
}

/* A note, or NULL. */
COLD static uint32_t *note(const char *program, int searches, char *const envp[], int lacks_library) {
    struct mallow_control *control = target.control;
    if (control == NULL || __atomic_load_n(&control->epoch, __ATOMIC_RELAXED) == MALLOW_EPOCH_OVER ||
        filter_is(FILTER_FORBIDS_FILES))
        return NULL;
    uint32_t pid = (uint32_t)sys_getpid();
    if ((control->flags & MALLOW_NO_CHILDREN) && pid != control->root_pid)
        return NULL;
    uint32_t state = MALLOW_UNREACHED_NOTED;
    char unlinked[512];
    if (!filter_is(FILTER_SEEN) && is_unlinked(program, searches, unlinked, sizeof unlinked)) {
        state = MALLOW_UNREACHED_UNLINKED;
        program = unlinked;
    } else if (!leads_to_a_run(envp))
        state = MALLOW_UNREACHED_WITHOUT;
    else if (!lacks_library && reaches_control())
        return NULL;
    for (uint32_t i = 0; i < MALLOW_MAX_UNREACHED; i++) {
        struct mallow_unreached *entry = &control->unreached[i];
        uint32_t free_entry = MALLOW_UNREACHED_FREE;
        if (!__atomic_compare_exchange_n(&entry->state, &free_entry, MALLOW_UNREACHED_BUSY, 0, __ATOMIC_ACQUIRE,
                                         __ATOMIC_RELAXED))
            continue;
        size_t length = strlen(program), most = sizeof entry->name - 1;
        text_copy(entry->name, length > most ? program + (length - most) : program, sizeof entry->name);
        entry->pid = pid;
        __atomic_store_n(&entry->state, state, __ATOMIC_RELEASE);
        return &entry->state;
    }
    __atomic_fetch_add(&control->unreached_more, 1, __ATOMIC_RELAXED);
    return &control->unreached_more;
}

/* The program was not executed. */
COLD static void take_back(uint32_t *noted) {
    if (noted == &target.control->unreached_more)
        __atomic_fetch_sub(noted, 1, __ATOMIC_RELAXED);
    else if (noted != NULL)
        __atomic_store_n(noted, MALLOW_UNREACHED_FREE, __ATOMIC_RELEASE);
}

/* The image is about to end by exec: what it has live is given back, and no leak. After vfork the memory is the
 * parent's, and so is the file. Under a filter nothing is asked for. */
static uint32_t *exec_begins(void) {
    struct mallow_process *process = target.process;
    uint32_t none = MALLOW_EXIT_NOT;
    if (process == NULL || filter_is(FILTER_SEEN) || process->pid != (uint32_t)sys_getpid() ||
        !__atomic_compare_exchange_n(&process->exit_state, &none, MALLOW_EXIT_EXEC, 0, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        return NULL;
    return &process->exit_state;
}

COLD static void exec_failed(uint32_t *state) {
    if (state != NULL)
        __atomic_store_n(state, MALLOW_EXIT_NOT, __ATOMIC_RELEASE);
}

/* Notes the program, and sets `result` to that of `call`; of `other`, with the environment `given`, where the
 * library is to be left out. */
#define EXECUTE(program, searches, envp, call, other)                                                                  \
    char *const *given = (envp);                                                                                       \
    int lacks = lacks_library(), result;                                                                               \
    uint32_t *noted = note(program, searches, given, lacks);                                                           \
    struct extent extent = extent_without_library(given, lacks);                                                       \
    if (LIKELY(extent.entries == 0)) {                                                                                 \
        result = call;                                                                                                 \
    } else {                                                                                                           \
        char *entries[extent.entries], preload[extent.preload];                                                        \
        copy_without_library(given, entries, preload);                                                                 \
        given = entries;                                                                                               \
        result = other;                                                                                                \
    }

#define X(name, parameters, arguments, environment, other, searches)                                                   \
    EXPORT int name parameters {                                                                                       \
        NEXT(name)                                                                                                     \
        uint32_t *state = exec_begins();                                                                               \
        EXECUTE(path, searches, environment, next.name arguments, next.other(path, argv, given))                       \
        exec_failed(state);                                                                                            \
        if (noted != NULL)                                                                                             \
            take_back(noted);                                                                                          \
        return result;                                                                                                 \
    }
FAMILY(X)
#undef X

EXPORT int fexecve(int fd, char *const argv[], char *const envp[]) {
    NEXT(fexecve)
    char link[32] = "/proc/self/fd/", program[256];
    *text_decimal(link + strlen(link), (uint32_t)fd) = 0;
    long length = sys_readlink(link, program, sizeof program - 1);
    program[length > 0 ? length : 0] = 0;
    /* Without a /proc: as the program calls itself. */
    const char *name = length > 0 || argv[0] == NULL ? program : argv[0];
    uint32_t *state = exec_begins();
    EXECUTE(name, 0, envp, next.fexecve(fd, argv, envp), next.fexecve(fd, argv, given))
    exec_failed(state);
    if (noted != NULL)
        take_back(noted);
    return result;
}

/* The child has its parent's namespaces. */
#define X(name, searches)                                                                                              \
    EXPORT int name SPAWN_PARAMETERS {                                                                                 \
        if (next.name == NULL)                                                                                         \
            exec_setup();                                                                                              \
        if (next.name == NULL)                                                                                         \
            return ENOSYS;                                                                                             \
        EXECUTE(path, searches, envp, next.name(pid, path, actions, attributes, argv, envp),                           \
                next.name(pid, path, actions, attributes, argv, given))                                                \
        if (noted != NULL && result != 0)                                                                              \
            take_back(noted);                                                                                          \
        return result;                                                                                                 \
    }
SPAWNS(X)
#undef X

/* Arguments up to NULL, on the stack, as the C library does it. */
#define COLLECT(first, count, argv)                                                                                    \
    va_list given;                                                                                                     \
    size_t count = 1;                                                                                                  \
    va_start(given, first);                                                                                            \
    while (va_arg(given, const char *) != NULL)                                                                        \
        count++;                                                                                                       \
    va_end(given);                                                                                                     \
    char *argv[count + 1];                                                                                             \
    memcpy(&argv[0], &first, sizeof argv[0]);                                                                          \
    va_start(given, first);                                                                                            \
    for (size_t i = 1; i <= count; i++)                                                                                \
        argv[i] = va_arg(given, char *);

EXPORT int execl(const char *path, const char *first, ...) {
    COLLECT(first, count, argv)
    va_end(given);
    return execv(path, argv);
}

EXPORT int execlp(const char *path, const char *first, ...) {
    COLLECT(first, count, argv)
    va_end(given);
    return execvp(path, argv);
}

EXPORT int execle(const char *path, const char *first, ...) {
    COLLECT(first, count, argv)
    char *const *environment = va_arg(given, char *const *);
    va_end(given);
    return execve(path, argv, environment);
}

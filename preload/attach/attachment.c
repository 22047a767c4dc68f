/* A process that mallow attached to: replacements of patched functions, joining a run, leaving it. */
#include "base/attachment.h"
#include "arch.h"
#include "attach/arrival.h"
#include "base/entries.h"
#include "base/filter.h"
#include "base/real.h"
#include "base/target.h"
#include "hook/stubs.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

_Static_assert(MALLOW_STUBS == MALLOW_STUB_COUNT, "each stub is named to mallow");

static uint64_t join(void);
static uint64_t leave(void);

/* What the patched functions do without their patches. */
static struct allocator trampolines;

/*
 * An allocator calls functions of its own, and these entries are patched too. Such a call comes from the allocator's
 * code; or from ours, where a function that was called below jumps to another one. Policies see the program's call
 * alone.
 */
ALWAYS_INLINE static inline int is_nested(const void *return_address) {
    uintptr_t at = (uintptr_t)return_address;
    for (unsigned i = 0; i < MALLOW_INSIDE_MOST; i++)
        if (UNLIKELY(at - mallow_attachment.inside[i].start < mallow_attachment.inside[i].bytes))
            return 1;
    return 0;
}

/* Jumps alone: a policy sees the caller's own frame. */
#define X(name, result, parameters, arguments)                                                                         \
    static result late_##name parameters {                                                                             \
        return is_nested(__builtin_return_address(0)) ? trampolines.name arguments : entry_##name arguments;           \
    }
MALLOW_HOT(X)
MALLOW_OTHER(X)
#undef X

/* Called, and not jumped to: the return address shows that what such a function goes on in is a nested call. malloc,
 * calloc and free go on in none. */
#define X(name, result, parameters, arguments)                                                                         \
    static result underlying_##name parameters {                                                                       \
        result value = trampolines.name arguments;                                                                     \
        __asm__ volatile("" : "+r"(value));                                                                            \
        return value;                                                                                                  \
    }
MALLOW_OTHER(X)
#undef X

/* musl has no such function, and the library is to be loaded with it, too. */
#pragma weak dladdr1

/*
 * Whether a program only calls it: one at a fixed address then has a jump of its own at what counts as the function's
 * address.
 */
static int is_stub(void *symbol, const struct link_map **program) {
    Dl_info info;
    const ElfW(Sym) *entry = NULL;
    struct link_map *map = NULL;
    if (dladdr1(symbol, &info, (void **)&map, RTLD_DL_LINKMAP) == 0 || map == NULL || map->l_name[0] != 0)
        return 0;
    *program = map;
    return dladdr1(symbol, &info, (void **)&entry, RTLD_DL_SYMENT) == 0 || entry == NULL ||
           entry->st_shndx == SHN_UNDEF;
}

/* The dynamic linker is locked while a constructor runs: its list does not change. */
static void *find_function(const char *name) {
    void *symbol = dlsym(RTLD_DEFAULT, name);
    const struct link_map *map;
    if (symbol == NULL || !is_stub(symbol, &map))
        return symbol;
    while ((map = map->l_next) != NULL) {
        Dl_info info;
        struct link_map *in = NULL;
        if (strchr(map->l_name, '/') == NULL) /* the vDSO, in which it cannot look */
            continue;
        /* One that was loaded for the sake of another can be searched once it was opened. */
        void *handle = dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD);
        symbol = handle != NULL ? dlsym(handle, name) : NULL;
        if (handle != NULL)
            dlclose(handle);
        if (symbol != NULL && dladdr1(symbol, &info, (void **)&in, RTLD_DL_LINKMAP) != 0 && in == map)
            return symbol;
    }
    return NULL;
}

/* The first function of each name in the program's order of search, as its own calls find it. */
static void find_functions(struct allocator *found) {
    struct mallow_late *entry = mallow_attachment.entries;
#define X(name, result, parameters, arguments)                                                                         \
    {                                                                                                                  \
        void *symbol = find_function(#name);                                                                           \
        result(*own) parameters = entry_##name;                                                                        \
        result(*late) parameters = late_##name;                                                                        \
        if (memcmp(&symbol, &own, sizeof symbol) == 0)                                                                 \
            symbol = NULL;                                                                                             \
        memcpy(&found->name, &symbol, sizeof symbol);                                                                  \
        memcpy(&entry->function, &symbol, sizeof symbol);                                                              \
        memcpy(&entry++->replacement, &late, sizeof late);                                                             \
    }
    MALLOW_HOT(X)
    MALLOW_OTHER(X)
#undef X
#define X(name)                                                                                                        \
    {                                                                                                                  \
        void *symbol = find_function(#name);                                                                           \
        __typeof__(&filter_##name) replacement = filter_##name;                                                        \
        memcpy(&entry->function, &symbol, sizeof symbol);                                                              \
        memcpy(&entry++->replacement, &replacement, sizeof replacement);                                               \
    }
    X(prctl)
    X(syscall)
#undef X
    void *symbol = find_function("malloc_usable_size");
    memcpy(&found->malloc_usable_size, &symbol, sizeof symbol);
    dlerror(); /* what was not found is nobody's error */
}

/* Once base has begun, in a process that mallow attached to: the library knows where things are. */
__attribute__((constructor(102))) static void library_loaded_late(void) {
    if (!attachment_is_late())
        return;
    uint64_t offset;
    struct allocator found = {0};
    find_functions(&found);
    real_sizes = real_sizes_of(&found);
    real = found;
    stubs_list(mallow_attachment.stub);
    ARCH_TLS_OFFSET(own_block, offset);
    mallow_attachment.tls = (char *)&own_block - (char *)__builtin_thread_pointer() - (int64_t)offset;
    uint64_t (*function)(void) = join;
    memcpy(&mallow_attachment.join, &function, sizeof function);
    function = leave;
    memcpy(&mallow_attachment.leave, &function, sizeof function);
}

/* The policy may be another one when they are called: they are never taken back. */
static void fork_begins(void) {
    if (recording->fork_begins != NULL)
        recording->fork_begins();
}

static void fork_ended(void) {
    if (recording->fork_ended != NULL)
        recording->fork_ended();
}

/* Files of a run that was left: their pages take some time to unmap, and no thread needs to stand still for it. */
static struct left_files {
    struct mallow_process *process;
    struct mallow_control *control;
    size_t process_bytes;
} left_files;

static void unmap_left_files(void) {
    if (left_files.process != NULL)
        sys_unmap(left_files.process, left_files.process_bytes);
    if (left_files.control != NULL)
        sys_unmap(left_files.control, sizeof *left_files.control);
    left_files = (struct left_files){0};
}

/* No entry is patched as yet, and no thread is in the library. */
static uint64_t join(void) {
    unmap_left_files(); /* of a mallow that was killed in between */
    static int watches_forks;
    const struct mallow_late *entry = mallow_attachment.entries;
#define X(name, result, parameters, arguments) memcpy(&trampolines.name, &entry++->trampoline, sizeof trampolines.name);
    MALLOW_HOT(X)
    MALLOW_OTHER(X)
#undef X
    filter_go_on_at(entry[0].trampoline, entry[1].trampoline);
    /* Those of the executable's own have none: stubs serve them. */
#define X(name, result, parameters, arguments)                                                                         \
    if (trampolines.name != NULL)                                                                                      \
        real.name = trampolines.name;
    MALLOW_HOT(X)
#undef X
#define X(name, result, parameters, arguments)                                                                         \
    if (trampolines.name != NULL)                                                                                      \
        real.name = underlying_##name;
    MALLOW_OTHER(X)
#undef X
    if (mallow_attachment.arrival && arrival_await() != 0)
        return 1;
    text_copy(target.named, mallow_attachment.arrival ? "." : mallow_attachment.directory, sizeof target.named);
    if (target_join() != 0) {
        arrival_leave();
        target.open = NULL;
        return 1;
    }
    thread_setup();
    if (!watches_forks)
        target_watch_forks(fork_begins, fork_ended);
    watches_forks = 1;
    if (recording->loaded != NULL)
        recording->loaded();
    mallow_attachment.state = MALLOW_ATTACHMENT_JOINED;
    return 0;
}

/*
 * As if the process had never joined a run. No entry is patched, no thread is in the library, and all threads'
 * variables are 0 after this. System calls alone: any thread may be held anywhere. Called again, while the others run,
 * it unmaps the files.
 */
static uint64_t leave(void) {
    if (mallow_attachment.state == MALLOW_ATTACHMENT_LEFT) {
        unmap_left_files();
        return 0;
    }
    policy_install(&no_policy);
    if (recording->left != NULL)
        recording->left();
    recording = &no_policy;
    left_files = (struct left_files){.process = target.process, .control = target.control};
    if (target.process != NULL)
        left_files.process_bytes = target.process->file_bytes;
    arrival_leave();
    target = (struct target){.pid = target.pid, .settings = target.settings};
    target_lock = 0;
    mallow_attachment.state = MALLOW_ATTACHMENT_LEFT;
    return 0;
}

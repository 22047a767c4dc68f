/*
 * Allocators inside of an image: which functions are to be patched is asked at its start, as mallow alone can read
 * symbol tables and decode instructions. The image writes the patches itself: that needs no privilege, and while it has
 * one thread nobody can be within the bytes that change.
 *
 * An image whose modules mallow knows to have no allocator inside asks nothing: it finds a file of their name.
 *
 * Libraries that come later are asked about when the dynamic linker has mapped them: nobody runs their code as yet.
 */
#include "arch.h"
#include "base/entries.h"
#include "base/filter.h"
#include "base/reader.h"
#include "base/target.h"
#include "hook/stubs.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define WAIT_MS 20
/* The symbols of a large program take a second or two to read. */
#define LONGEST_NS (20ull * 1000000000)

/* ---- the modules ---- */

static uint64_t mix(uint64_t key, const void *bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        key = (key ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3ull;
    return key;
}

/* Whether a module's addresses are in memory, as its program headers have it. */
static int is_loaded(const struct dl_phdr_info *info, uint64_t address, uint64_t bytes) {
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_R) != 0 && address >= segment->p_vaddr &&
            address + bytes <= segment->p_vaddr + segment->p_filesz)
            return 1;
    }
    return 0;
}

/*
 * A look at modules: at all, or at those after the first `known`, which is not 0 then. New ones are the last of the
 * list.
 */
struct look {
    uint64_t key;
    unsigned known, all;
    uint64_t library[MALLOW_ASK_LIBRARIES];
};

/* A build-id is in the notes; without one the headers distinguish modules well enough, with the name. */
static int look_at(struct dl_phdr_info *info, size_t size, void *to) {
    (void)size;
    struct look *look = to;
    if (look->all++ < look->known)
        return 0;
    unsigned at = look->all - look->known;
    if (look->known != 0)
        look->library[at - 1] = (uint64_t)info->dlpi_phdr;
    uint64_t mixed = mix(look->key, info->dlpi_name, strlen(info->dlpi_name));
    mixed = mix(mixed, info->dlpi_phdr, info->dlpi_phnum * sizeof *info->dlpi_phdr);
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_NOTE && is_loaded(info, segment->p_vaddr, segment->p_memsz))
            mixed = mix(mixed, (const void *)(info->dlpi_addr + segment->p_vaddr), segment->p_memsz);
    }
    look->key = mixed;
    return look->known != 0 && at == MALLOW_ASK_LIBRARIES;
}

/* ---- the files ---- */

#define PATH_BYTES (sizeof target.directory + 64)

static char *path_begin(char path[PATH_BYTES], const char *kind) {
    char *at = path + text_copy(path, target.directory, sizeof target.directory);
    return at + text_copy(at, kind, 16);
}

static int has_nothing_inside(uint64_t key) {
    char path[PATH_BYTES];
    *text_decimal(path_begin(path, "/inside/n-"), key) = 0;
    long fd = sys_open(path, O_RDONLY | O_NOFOLLOW, 0);
    if (fd >= 0)
        sys_close((int)fd);
    return fd >= 0;
}

/* Bytes that were written, or below 0: also where RLIMIT_FSIZE allows no more, as the kernel would end the program by
 * SIGXFSZ. */
static long append(int to, const void *from, size_t bytes) {
    uint64_t size;
    if (sys_size(to, &size) != 0 || size + bytes > sys_limit(RLIMIT_FSIZE))
        return -EFBIG;
    return sys_write(to, from, bytes);
}

/* Appends /proc/self/maps. Bytes, or below 0. */
static long write_maps(int to) {
    static char buffer[ARCH_PAGE_MOST];
    long from = sys_open("/proc/self/maps", O_RDONLY, 0), done = -1, total = 0;
    if (from < 0)
        return from;
    while ((done = sys_read((int)from, buffer, sizeof buffer)) > 0 && append(to, buffer, (size_t)done) == done)
        total += done;
    sys_close((int)from);
    return done == 0 ? total : -1;
}

/*
 * Where the answer is read to: it is mapped before mallow is shown what is mapped, and so lies in no place for patches.
 */
#define ANSWER_MOST (1ul << 20)
static void *answer;

static void ask_unmap(struct mallow_ask *ask) {
    if (ask != NULL)
        sys_unmap(ask, sizeof *ask);
    if (answer != NULL)
        sys_memory_free(answer, ANSWER_MOST);
    answer = NULL;
}

/* Makes the file of the question. `name` gets the end of its path. */
static struct mallow_ask *ask_write(const struct look *look, char name[32]) {
    char path[PATH_BYTES];
    char *begin = path_begin(path, "/inside/a-");
    long fd = -17;
    for (uint32_t serial = 0; serial < 10000 && fd == -17; serial++) { /* EEXIST */
        char *at = text_decimal(begin, (uint64_t)sys_getpid());
        *at++ = '-';
        *text_decimal(at, serial) = 0;
        fd = sys_open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    }
    if (fd < 0)
        return NULL;
    text_copy(name, begin, 32);
    struct mallow_ask head = {
        .version = MALLOW_WIRE_VERSION, .state = MALLOW_ASK_WAITS, .pid = (uint32_t)sys_getpid(), .key = look->key};
    stubs_list(head.stub);
    memcpy(head.library, look->library, sizeof head.library);
    struct mallow_ask *ask = NULL;
    long maps = -1;
    if (append((int)fd, &head, sizeof head) == (long)sizeof head && (ask = sys_map((int)fd, sizeof *ask, 1)) != NULL &&
        (answer = sys_memory(ANSWER_MOST)) != NULL)
        maps = write_maps((int)fd);
    if (maps > 0) {
        ask->maps_bytes = (uint32_t)maps;
        __atomic_store_n(&ask->magic, MALLOW_ASK_MAGIC, __ATOMIC_RELEASE);
    } else {
        SYS_CALL1(SYS_unlink, path);
        ask_unmap(ask);
        ask = NULL;
    }
    sys_close((int)fd);
    return ask;
}

/* Waits for the answer. */
static uint32_t ask_wait(struct mallow_ask *ask) {
    struct patience patience = {0};
    uint64_t until_ns = sys_now_ns() + LONGEST_NS;
    uint32_t state;
    __atomic_fetch_add(&target.control->asks, 1, __ATOMIC_RELEASE);
    sys_futex_wake(&target.control->asks);
    while ((state = __atomic_load_n(&ask->state, __ATOMIC_ACQUIRE)) == MALLOW_ASK_WAITS && sys_now_ns() < until_ns &&
           reader_wait(&patience, &ask->state, MALLOW_ASK_WAITS, WAIT_MS))
        ;
    if (state == MALLOW_ASK_WAITS) /* an answer that comes now is in `state` then */
        __atomic_compare_exchange_n(&ask->state, &state, MALLOW_ASK_GIVEN_UP, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    return state;
}

/* ---- writing ---- */

enum { JUMP_BYTES = 5 };

/*
 * By the file that writes into read-only mappings; where the kernel does not allow that, by making the page writable.
 */
static long write_code(int memory, uint64_t at, const uint8_t *bytes) {
    if (memory >= 0 && SYS_CALL4(SYS_pwrite64, memory, bytes, JUMP_BYTES, at) == JUMP_BYTES)
        return 0;
    uint64_t first = at & ~(ARCH_PAGE - 1), length = ((at + JUMP_BYTES - 1) & ~(ARCH_PAGE - 1)) + ARCH_PAGE - first;
    long error = SYS_CALL3(SYS_mprotect, first, length, PROT_READ | PROT_WRITE | PROT_EXEC);
    if (error != 0)
        return error;
    memcpy((void *)(uintptr_t)at, bytes, JUMP_BYTES);
    return SYS_CALL3(SYS_mprotect, first, length, PROT_READ | PROT_EXEC);
}

static long write_area(const struct mallow_area *area, const char *file) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (area->reused ? MAP_FIXED : MAP_FIXED_NOREPLACE);
    long at = SYS_CALL6(SYS_mmap, area->address, area->bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if ((uint64_t)at != area->address) /* a kernel before 4.17 may choose another address */
        return at < 0 && at > -4096 ? at : -EEXIST;
    memcpy((void *)at, file + area->offset, area->bytes);
    return SYS_CALL3(SYS_mprotect, at, area->bytes, PROT_READ | PROT_EXEC);
}

/* Where the function is one of the underlying allocator: we call what does the same from now on. */
static void real_move(uint64_t function, uint64_t original) {
    void *moved = (void *)(uintptr_t)original;
#define X(name, result, parameters, arguments)                                                                         \
    if ((uint64_t)real.name == function)                                                                               \
        memcpy(&real.name, &moved, sizeof moved);
    MALLOW_ENTRIES(X)
#undef X
    if ((uint64_t)policy.free == function)
        policy.free = real.free;
}

uint32_t patches_write(const struct mallow_patches *patches, int is_start) {
    const struct mallow_area *areas = (const struct mallow_area *)(patches + 1);
    const struct mallow_write *writes = (const struct mallow_write *)(areas + patches->areas);
    if (is_start && sys_entries("/proc/self/task", NULL, NULL) != 1)
        return MALLOW_ASK_THREADS;
    for (uint32_t i = 0; i < patches->writes; i++)
        if (memcmp((const void *)(uintptr_t)writes[i].at, writes[i].before, JUMP_BYTES) != 0)
            return MALLOW_ASK_CHANGED;
    long error = 0;
    for (uint32_t i = 0; i < patches->areas && error == 0; i++)
        error = write_area(&areas[i], (const char *)patches);
    long memory = error != 0 ? -1 : sys_open("/proc/self/mem", O_RDWR, 0);
    uint32_t done = 0;
    while (error == 0 && done < patches->writes &&
           (error = write_code((int)memory, writes[done].at, writes[done].after)) == 0)
        done++;
    for (uint32_t i = done; error != 0 && i > 0; i--)
        write_code((int)memory, writes[i - 1].at, writes[i - 1].before);
    sys_close((int)memory);
    for (uint32_t i = 0; i < patches->writes && error == 0; i++)
        real_move(writes[i].function, writes[i].original);
    return (uint32_t)-error;
}

static uint32_t patches_apply(const char *name, int is_start) {
    char path[PATH_BYTES];
    text_copy(path_begin(path, "/inside/r-"), name, 32);
    long fd = sys_open(path, O_RDONLY | O_NOFOLLOW, 0);
    if (fd < 0)
        return (uint32_t)-fd;
    long read, total = 0;
    while (total < (long)ANSWER_MOST &&
           (read = sys_read((int)fd, (char *)answer + total, ANSWER_MOST - (size_t)total)) > 0)
        total += read;
    sys_close((int)fd);
    const struct mallow_patches *patches = answer;
    if (patches->magic != MALLOW_PATCHES_MAGIC || patches->version != MALLOW_WIRE_VERSION || total == (long)ANSWER_MOST)
        return EINVAL;
    return patches_write(patches, is_start);
}

/* An executable at a fixed address that takes malloc's address has a call of its own there, and the symbol, which
 * stays undefined, has the address of that call: it goes on to whoever comes first. False where the C library cannot
 * say. */
static int is_call_stub(void *function) {
    int (*symbol_at)(const void *, Dl_info *, void **, int);
    *(void **)&symbol_at = dlsym(RTLD_DEFAULT, "dladdr1");
    Dl_info info;
    void *symbol = NULL;
    return symbol_at != NULL && symbol_at(function, &info, &symbol, 1 /* RTLD_DL_SYMENT */) != 0 && symbol != NULL &&
           ((const ElfW(Sym) *)symbol)->st_shndx == SHN_UNDEF;
}

/* Whether the program's malloc is another one than this library's: the executable's own comes first. */
static int is_shadowed(void) {
    Dl_info theirs, ours;
    void *found = dlsym(RTLD_DEFAULT, "malloc");
    return found != NULL && dladdr(found, &theirs) != 0 && dladdr((void *)stubs_list, &ours) != 0 &&
           theirs.dli_fbase != ours.dli_fbase && !is_call_stub(found);
}

static void ask(const struct look *look) {
    char name[32];
    struct mallow_ask *ask = has_nothing_inside(look->key) ? NULL : ask_write(look, name);
    if (ask != NULL && ask_wait(ask) == MALLOW_ASK_ANSWERED) {
        ask->error = patches_apply(name, look->known == 0);
        if (ask->error == 0 && look->known == 0 && is_shadowed())
            policy_pass_through();
        __atomic_store_n(&ask->state, ask->error == 0 ? MALLOW_ASK_PATCHED : MALLOW_ASK_FAILED, __ATOMIC_RELEASE);
    }
    ask_unmap(ask);
}

static int may_ask(void) {
    const struct mallow_control *control = target.control;
    return control != NULL && (control->flags & MALLOW_INSIDE) != 0 && recording->hooked != NULL &&
           !reader_is_gone(control) && !filter_is(FILTER_FORBIDS_FILES) && !target_is_stopped() &&
           ((control->flags & MALLOW_NO_CHILDREN) == 0 || (uint32_t)sys_getpid() == control->root_pid);
}

#pragma weak _r_debug /* musl has another name for it */

/* At the start, and in place of the dynamic linker's empty function for debuggers, which it calls with its lock
 * held: before and after it maps or unmaps libraries. */
static void look_for_allocators(void) {
    static unsigned known;
    struct look look;
    int saved_errno = errno;
    do {
        look = (struct look){.key = 0xcbf29ce484222325ull + (known != 0), .known = known};
        if (known != 0 && _r_debug.r_state != RT_CONSISTENT)
            break;
        dl_iterate_phdr(look_at, &look);
        if (look.all > known && may_ask())
            ask(&look);
        known = look.all;
    } while (look.library[MALLOW_ASK_LIBRARIES - 1] != 0);
    errno = saved_errno;
}

/*
 * That function is a `ret`, and padding up to the next one. Any other is left alone: a debugger's breakpoint may be
 * there.
 */
static void watch_linker(void) {
    static const char padding[] =
        "\x66\x66\x2e\x0f.\x66\x2e\x0f\x1f.\x0f\x1f\x84\x00.\x0f\x1f\x80\x00.\x90\x90\x90\x90.\xcc\xcc\xcc\xcc";
    struct {
        struct mallow_patches head;
        struct mallow_write jump;
    } patch = {{.writes = 1}, {.after = {0xe9}}};
    const char *at = &_r_debug != NULL ? (const char *)_r_debug.r_brk : NULL;
    if (at == NULL || (uint64_t)at % 16 != 0)
        return;
    at += memcmp(at, "\xf3\x0f\x1e\xfa", 4) == 0 ? 4 : 0; /* endbr64 */
    patch.jump.at = (uint64_t)at;
    int64_t distance = (int64_t)look_for_allocators - (int64_t)(at + JUMP_BYTES);
    memcpy(patch.jump.before, at, JUMP_BYTES);
    memcpy(patch.jump.after + 1, &distance, 4);
    if (at[0] == '\xc3' && memmem(padding, sizeof padding, at + 1, 4) != NULL && distance == (int32_t)distance)
        patches_write(&patch.head, 0);
}

/* Before the constructors of the executable, which may allocate. */
__attribute__((constructor(102))) static void patch_allocators_inside(void) {
    look_for_allocators();
    if (may_ask())
        watch_linker();
}

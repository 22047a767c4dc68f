/* Modules: asking the dynamic linker, announcing them to mallow, mapping their tables.  */
#include "walk/modules.h"
#include "arch.h"
#include "base/filter.h"
#include "base/lock.h"
#include "base/reader.h"
#include "base/target.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>

uint32_t modules_generation;
int modules_wait = 1;
uint32_t modules_unanswered;
struct modules_linker modules_linker;

/*
 * Entries are only added, under modules_lock; `modules` counts those that are complete, so readers need no lock. An
 * entry that was unloaded has start == end == 0, which no pc is within.
 */
#define CHUNK 16u
static struct chunk {
    struct module module[CHUNK];
    /* What is written for each into the process file: kept here for the files of forked children. */
    struct mallow_module announced[CHUNK];
} * chunks[MALLOW_MAX_MODULES / CHUNK]; /* made when they are needed: a limit of the target's memory counts them */
static uint32_t modules;
static uint32_t modules_lock;
/* The first so many were loaded with the program, or soon after, and are not unloaded as a rule. */
static uint32_t modules_at_start;

static inline struct module *module_at(uint32_t index) {
    return &chunks[index / CHUNK]->module[index % CHUNK];
}

static inline struct mallow_module *announced_at(uint32_t index) {
    return &chunks[index / CHUNK]->announced[index % CHUNK];
}

/* glibc 2.35 and later: finds the module of an address without locks, safe in signal handlers. */
typedef int find_object(void *address, struct dl_find_object *result);
static find_object *dl_find;

/* What the dynamic linker says of one address. */
struct found {
    uint64_t start, end;
    const void *identity;
    const char *path;
};

struct search {
    uint64_t pc;
    struct found found;
};

static int search_module(struct dl_phdr_info *info, size_t size, void *context) {
    struct search *search = context;
    uint64_t low = UINT64_MAX, high = 0;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD)
            continue;
        uint64_t begin = info->dlpi_addr + segment->p_vaddr, end = begin + segment->p_memsz;
        low = begin < low ? begin : low;
        high = end > high ? end : high;
    }
    if (search->pc < low || search->pc >= high)
        return 0;
    search->found = (struct found){low & ~(ARCH_PAGE - 1), high, info->dlpi_phdr, info->dlpi_name};
    return 1;
}

/* Of a program with holes between its segments, which the kernel maps, the linker gives the segment alone: the program
 * headers give the whole. Where the ELF header is at the start, there is nothing to mend. */
static void mend_program(const struct link_map *map, struct found *found) {
    const ElfW(Phdr) *segments = (const ElfW(Phdr) *)getauxval(AT_PHDR);
    uint64_t low = UINT64_MAX, high = 0;
    if (map->l_name[0] != 0 || segments == NULL || memcmp((const void *)found->start, ELFMAG, SELFMAG) == 0)
        return;
    for (unsigned long i = 0; i < getauxval(AT_PHNUM); i++) {
        if (segments[i].p_type != PT_LOAD)
            continue;
        uint64_t begin = map->l_addr + segments[i].p_vaddr, end = begin + segments[i].p_memsz;
        low = begin < low ? begin : low;
        high = end > high ? end : high;
    }
    low &= ~(ARCH_PAGE - 1);
    if (low <= found->start && found->end <= high) {
        found->start = low;
        found->end = high;
    }
}

static int ask_linker(uint64_t pc, struct found *found) {
    if (dl_find != NULL) {
        struct dl_find_object object;
        if (dl_find((void *)pc, &object) != 0)
            return 0;
        *found = (struct found){(uint64_t)object.dlfo_map_start, (uint64_t)object.dlfo_map_end, object.dlfo_link_map,
                                object.dlfo_link_map->l_name};
        mend_program(object.dlfo_link_map, found);
        return 1;
    }
    struct search search = {pc, {0}};
    if (!dl_iterate_phdr(search_module, &search))
        return 0;
    *found = search.found;
    return 1;
}

void modules_setup(void) {
    void *symbol = dlsym(RTLD_DEFAULT, "_dl_find_object");
    memcpy(&dl_find, &symbol, sizeof symbol);
    /* musl never unloads, and its dynamic linker is the C library itself, which frees all the time. */
    symbol = dlsym(RTLD_DEFAULT, "gnu_get_libc_version");
    void *linker = dlsym(RTLD_DEFAULT, "__tls_get_addr");
    struct found found;
    if (symbol != NULL && linker != NULL && ask_linker((uint64_t)linker, &found)) {
        modules_linker.start = found.start;
        modules_linker.bytes = found.end - found.start;
    }
}

/*
 * Where frees are not looked at one by one, unloading is noticed here. Between the unloading and this another module
 * may come to lie in the same place: a stack that is walked meanwhile may be wrong, as memory that it reads is still
 * the stack's own.
 */
__attribute__((visibility("default"))) int dlclose(void *handle) {
    static int (*next)(void *);
    int (*call)(void *) = __atomic_load_n(&next, __ATOMIC_RELAXED);
    if (call == NULL) {
        void *symbol = dlsym(RTLD_NEXT, "dlclose");
        memcpy(&call, &symbol, sizeof symbol);
        __atomic_store_n(&next, call, __ATOMIC_RELAXED);
    }
    int result = call(handle);
    if (!modules_wait)
        modules_linker_freed();
    return result;
}

/* Copies the GNU build-id of the ELF image at start; 0 bytes where there is none. The image's first page is mapped: it
 * holds the ELF header (gABI chapter 5), and the program headers follow it in every file that a linker makes. */
static uint32_t build_id(uint64_t start, uint64_t end, uint8_t *out, uint32_t size) {
    const ElfW(Ehdr) *elf = (const ElfW(Ehdr) *)start;
    if (memcmp(elf->e_ident, ELFMAG, SELFMAG) != 0 || elf->e_phentsize != sizeof(ElfW(Phdr)) ||
        elf->e_phoff + elf->e_phnum * sizeof(ElfW(Phdr)) > ARCH_PAGE)
        return 0;
    const ElfW(Phdr) *segments = (const ElfW(Phdr) *)(start + elf->e_phoff);
    uint64_t base = UINT64_MAX;
    for (int i = 0; i < elf->e_phnum; i++)
        if (segments[i].p_type == PT_LOAD && segments[i].p_vaddr < base)
            base = segments[i].p_vaddr;
    base &= ~(ARCH_PAGE - 1);
    for (int i = 0; i < elf->e_phnum; i++) {
        uint64_t at = start + segments[i].p_vaddr - base, stop = at + segments[i].p_memsz;
        if (segments[i].p_type != PT_NOTE || at < start || stop > end || stop < at)
            continue;
        while (at + sizeof(ElfW(Nhdr)) <= stop) {
            const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)at;
            uint64_t name = at + sizeof *note, data = name + ((note->n_namesz + 3ull) & ~3ull);
            uint64_t next = data + ((note->n_descsz + 3ull) & ~3ull);
            if (next > stop)
                break;
            if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && memcmp((void *)name, "GNU", 4) == 0 &&
                note->n_descsz <= size) {
                memcpy(out, (void *)data, note->n_descsz);
                return note->n_descsz;
            }
            at = next;
        }
    }
    return 0;
}

static uint32_t module_path(const struct found *found, char *out, size_t size) {
    if (found->start == getauxval(AT_SYSINFO_EHDR))
        return (uint32_t)text_copy(out, "[vdso]", size);
    if (found->path[0] == '/')
        return (uint32_t)text_copy(out, found->path, size);
    if (found->path[0] == 0) {
        long length = sys_readlink("/proc/self/exe", out, size - 1);
        return length > 0 ? (uint32_t)length : 0;
    }
    long length = SYS_CALL2(SYS_getcwd, out, size);
    if (length <= 0)
        return 0;
    size_t at = (size_t)length - 1; /* getcwd counts the NUL */
    if (at + 1 < size)
        out[at++] = '/';
    return (uint32_t)(at + text_copy(out + at, found->path, size - at));
}

/* DIR/tables/KEY */
static void table_path(char *path, size_t size, const struct mallow_module *module, uint32_t index) {
    static const char hex[] = "0123456789abcdef";
    char *at = path + text_copy(path, target.directory, size - 128);
    memcpy(at, "/tables/", 8);
    at += 8;
    for (uint32_t i = 0; i < module->build_id_len; i++) {
        *at++ = hex[module->build_id[i] >> 4];
        *at++ = hex[module->build_id[i] & 15];
    }
    if (module->build_id_len == 0) {
        at = text_decimal(at, target.pid);
        *at++ = '-';
        at = text_decimal(at, index);
    }
    *at = 0;
}

static int table_map(struct module *module, const char *path) {
    long fd = target_open(path, O_RDONLY, 0);
    if (fd < 0)
        return 0;
    uint64_t bytes = 0;
    const struct mallow_table *table = NULL;
    if (sys_size((int)fd, &bytes) == 0 && bytes >= sizeof *table)
        table = sys_map((int)fd, bytes, 0);
    sys_close((int)fd);
    if (table == NULL)
        return 0;
    uint64_t rows = table->rows;
    if (table->magic != MALLOW_TABLE_MAGIC || table->version != MALLOW_WIRE_VERSION || table->file_bytes != bytes ||
        rows == 0 || table->rules < 2 || sizeof *table + rows * 4 > bytes || table->quick_offset + rows * 2 > bytes ||
        table->full_offset + rows * 4 > bytes ||
        table->rules_offset + table->rules * sizeof(struct mallow_rule) > bytes) {
        sys_unmap((void *)table, bytes);
        return 0;
    }
    const char *base = (const char *)table;
    module->pc = (const uint32_t *)(base + sizeof *table);
    module->quick = (const uint16_t *)(base + table->quick_offset);
    module->full = (const uint32_t *)(base + table->full_offset);
    module->rules = (const struct mallow_rule *)(base + table->rules_offset);
    __atomic_store_n(&module->table, table, __ATOMIC_RELEASE);
    return 1;
}

/* Puts entry `index` into the process file. Its page may have to be made first. Call with modules_lock held. */
static struct mallow_module *announce(uint32_t index) {
    if (target.process == NULL)
        return NULL;
    struct mallow_module *entry = &target.modules[index];
    if (sys_populate(entry, sizeof *entry) != 0)
        return NULL;
    *entry = *announced_at(index);
    __atomic_store_n(&target.process->generation, modules_generation, __ATOMIC_RELEASE);
    __atomic_store_n(&target.process->modules, index + 1, __ATOMIC_RELEASE);
    return entry;
}

/* Asks mallow for the table of a module and waits for it: MALLOW_TABLE_WAIT_MS at the most. Returns what became of it,
 * and writes that it was late where it was. Where nobody is left to answer, the recording ends in this process: stacks
 * without tables are worth little, and would not look it. */
static uint32_t table_wait(struct mallow_module *entry) {
    doorbell_ring();
    struct patience patience = {0};
    for (uint64_t until = sys_tick_ns() + MALLOW_TABLE_WAIT_MS * 1000000ull; sys_tick_ns() < until;) {
        uint32_t status = __atomic_load_n(&entry->status, __ATOMIC_ACQUIRE);
        if (status != MALLOW_MODULE_WANTED)
            return status;
        if (!reader_wait(&patience, &entry->status, MALLOW_MODULE_WANTED, 20)) {
            if (reader_is_gone(target.control))
                target_stop();
            break;
        }
    }
    /* An answer of this very moment holds. */
    uint32_t status = MALLOW_MODULE_WANTED;
    if (__atomic_compare_exchange_n(&entry->status, &status, MALLOW_MODULE_LATE, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return MALLOW_MODULE_LATE;
    return status;
}

/* A table that is there and cannot be read, as after chroot: to who reads stacks it is as if it came too late. */
static uint32_t table_unreached(uint32_t *status) {
    __atomic_store_n(status, MALLOW_MODULE_LATE, __ATOMIC_RELEASE);
    return MALLOW_MODULE_LATE;
}

/* True for the very file that entry `index` was made for, in the same place: the linker may use a handle again. */
static int is_same(uint32_t index, const struct found *found) {
    const struct mallow_module *text = announced_at(index);
    if (module_at(index)->identity != found->identity || text->start != found->start || text->end != found->end)
        return 0;
    uint8_t id[sizeof text->build_id];
    uint32_t id_len = build_id(found->start, found->end, id, sizeof id);
    if (id_len != 0 || text->build_id_len != 0)
        return id_len == text->build_id_len && memcmp(id, text->build_id, id_len) == 0;
    /* A relative name is the end of the path that was announced; the working directory may be another now. */
    size_t name_len = strlen(found->path), skip = text->path_len > name_len ? text->path_len - name_len : 0;
    return memcmp(text->path + skip, found->path, text->path_len - skip) == 0;
}

/* Call with modules_lock held. */
static const struct module *module_add(const struct found *found) {
    uint32_t index = modules;
    if (index >= MALLOW_MAX_MODULES)
        return NULL;
    struct chunk **chunk = &chunks[index / CHUNK];
    if (*chunk == NULL && (*chunk = sys_memory(sizeof **chunk)) == NULL) {
        target_count_lost();
        return NULL;
    }
    struct module *module = module_at(index);
    struct mallow_module *text = announced_at(index);
    *module = (struct module){.start = found->start, .end = found->end, .identity = found->identity};
    text->start = found->start;
    text->end = found->end;
    text->generation = modules_generation;
    text->path_len = module_path(found, text->path, sizeof text->path);
    text->build_id_len = build_id(found->start, found->end, text->build_id, sizeof text->build_id);

    char path[sizeof target.directory + 128];
    table_path(path, sizeof path, text, index);
    int mapped = text->build_id_len != 0 && table_map(module, path);
    text->status = mapped ? MALLOW_MODULE_READY : MALLOW_MODULE_WANTED;
    struct mallow_module *entry = announce(index);
    uint32_t answer = MALLOW_MODULE_WITHOUT;
    if (!mapped && modules_wait && entry != NULL && (answer = table_wait(entry)) == MALLOW_MODULE_READY &&
        !table_map(module, path))
        answer = table_unreached(&entry->status);
    if (!mapped && !modules_wait) {
        __atomic_fetch_add(&modules_unanswered, 1, __ATOMIC_RELAXED);
        doorbell_ring();
    } else if (module->table != NULL) {
        text->status = MALLOW_MODULE_READY;
    } else {
        /* Forked children go on without the table, too. */
        text->status = answer == MALLOW_MODULE_LATE ? MALLOW_MODULE_LATE : MALLOW_MODULE_WITHOUT;
    }
    __atomic_store_n(&modules, index + 1, __ATOMIC_RELEASE);
    return module;
}

const struct module *module_between(uint64_t start, uint64_t end) {
    for (uint32_t i = __atomic_load_n(&modules, __ATOMIC_ACQUIRE); i-- > 0;) {
        const struct module *module = module_at(i);
        if (module->start < end && start < module->end)
            return module;
    }
    return NULL;
}

/* Signals that the holder of modules_lock had blocked before. */
static uint64_t holders_mask;

/* Takes modules_lock. Signals are blocked meanwhile: a handler that waits for the lock of its own thread, or leaves by
 * longjmp, would hold up all threads for ever. */
static void lock(void) {
    uint64_t mask = sys_block_signals();
    lock_acquire(&modules_lock);
    holders_mask = mask;
}

static void unlock(void) {
    uint64_t mask = holders_mask;
    lock_release(&modules_lock);
    sys_restore_signals(mask);
}

static void note_change(void) {
    __atomic_fetch_add(&modules_linker.changes, 1, __ATOMIC_RELEASE);
}

void modules_void(void) {
    __atomic_fetch_add(&modules_linker.unloads, 1, __ATOMIC_RELEASE);
    note_change();
}

void modules_linker_freed(void) {
    __atomic_fetch_add(&modules_linker.freed, 1, __ATOMIC_RELEASE);
    note_change();
}

const struct module *module_find(uint64_t pc) {
    struct found found;
    if (!ask_linker(pc, &found))
        return NULL;
    const struct module *module = module_known(pc);
    if (module != NULL && module->identity == found.identity && module->start == found.start)
        return module;
    if (filter_is(FILTER_FORBIDS_FILES))
        return NULL;
    lock();
    /* Others may have added it meanwhile, or it was unloaded and comes back; what else covers its addresses is gone. */
    int replaced = 0;
    module = NULL;
    for (uint32_t i = 0; i < modules; i++) {
        struct module *other = module_at(i);
        const struct mallow_module *text = announced_at(i);
        if (text->generation == UINT32_MAX || text->start >= found.end || text->end <= found.start)
            continue;
        if (is_same(i, &found)) {
            other->end = found.end;
            other->start = found.start;
            module = other;
        } else {
            other->end = 0;
            other->start = 0;
            announced_at(i)->generation = UINT32_MAX; /* not for the files of later children */
            replaced = 1;
        }
    }
    if (module == NULL) {
        if (replaced)
            __atomic_store_n(&modules_generation, modules_generation + 1, __ATOMIC_RELEASE);
        module = module_add(&found);
        note_change();
    }
    unlock();
    return module;
}

void modules_settle(void (*forget)(void)) {
    uint32_t freed = __atomic_load_n(&modules_linker.freed, __ATOMIC_ACQUIRE), gone = 0;
    uint32_t count = __atomic_load_n(&modules, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < count; i++) {
        /* No memory of a module may be read here: another thread may be unloading it. So each that could be unloaded is
         * dropped; whoever meets it on its stack, where it cannot go away, finds it again. */
        struct found found;
        uint64_t start = module_at(i)->start;
        if (start == 0 || (i < modules_at_start && ask_linker(start, &found) &&
                           module_at(i)->identity == found.identity && found.start == start))
            continue;
        lock();
        if (module_at(i)->start == start)
            module_at(i)->end = module_at(i)->start = 0;
        unlock();
        gone = 1;
    }
    if (gone) {
        forget();
        modules_void();
    }
    __atomic_store_n(&modules_linker.settled, freed, __ATOMIC_RELEASE);
}

/* The status of a module that is without an answer, in the process file; NULL where that has come. */
static uint32_t *unanswered(uint32_t index, int answered) {
    if (announced_at(index)->status != MALLOW_MODULE_WANTED || module_at(index)->start == 0 || target.process == NULL ||
        index >= target.process->modules)
        return NULL;
    uint32_t *status = &target.modules[index].status;
    return (__atomic_load_n(status, __ATOMIC_ACQUIRE) != MALLOW_MODULE_WANTED) == answered ? status : NULL;
}

void modules_fetch(void (*forget)(void)) {
    uint32_t count = __atomic_load_n(&modules, __ATOMIC_ACQUIRE), first = 0, came = 0;
    while (first < count && unanswered(first, 1) == NULL)
        first++;
    if (first == count)
        return;
    lock();
    for (uint32_t i = first; i < count; i++) {
        uint32_t *status = unanswered(i, 1);
        if (status == NULL)
            continue;
        char path[sizeof target.directory + 128];
        table_path(path, sizeof path, announced_at(i), i);
        announced_at(i)->status = MALLOW_MODULE_WITHOUT;
        if (*status == MALLOW_MODULE_READY) {
            came = table_map(module_at(i), path);
            announced_at(i)->status = came ? MALLOW_MODULE_READY : table_unreached(status);
        }
        __atomic_fetch_sub(&modules_unanswered, 1, __ATOMIC_RELAXED);
    }
    unlock();
    if (came) {
        forget();
        modules_void();
    }
}

void modules_await(void) {
    static uint64_t in_vain; /* mallow's clock when it did not answer: it is asked again when that moves */
    uint64_t epoch = __atomic_load_n(&target.control->epoch, __ATOMIC_RELAXED);
    if (epoch == __atomic_load_n(&in_vain, __ATOMIC_RELAXED))
        return;
    uint32_t count = __atomic_load_n(&modules, __ATOMIC_ACQUIRE);
    uint64_t until = sys_tick_ns() + 100000000ull;
    struct patience patience = {0};
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t *status; (status = unanswered(i, 0)) != NULL;)
            if (sys_tick_ns() >= until || !reader_wait(&patience, status, MALLOW_MODULE_WANTED, 20)) {
                __atomic_store_n(&in_vain, epoch, __ATOMIC_RELAXED);
                return;
            }
}

static int learn_module(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    (void)context;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X) != 0) {
            module_find(info->dlpi_addr + segment->p_vaddr);
            break;
        }
    }
    return 0;
}

void modules_learn(void) {
    if (__atomic_load_n(&modules, __ATOMIC_ACQUIRE) != 0)
        return;
    dl_iterate_phdr(learn_module, NULL);
    modules_at_start = modules;
}

uint32_t module_row(const struct module *module, uint64_t pc) {
    uint32_t offset = (uint32_t)(pc - module->start);
    const uint32_t *base = module->pc;
    for (uint32_t count = module->table->rows; count > 1;) {
        uint32_t half = count / 2;
        base += base[half] <= offset ? half : 0;
        count -= half;
    }
    return (uint32_t)(base - module->pc);
}

void modules_forked(void) {
    modules_lock = 0;
}

void modules_announce_all(void) {
    lock();
    for (uint32_t i = 0; i < modules; i++)
        announce(i);
    unlock();
}

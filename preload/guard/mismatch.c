/*
 * Which operations belong together, and which modules may have operators that nobody sees.
 *
 * operator new and operator delete of libstdc++ are seen (operators.c). Others call malloc and free, often by a jump,
 * and then nothing distinguishes them from the program's own calls. A module that is linked statically with a C++
 * runtime has such operators, perhaps without symbols. One that imports an operator and defines none has no other: the
 * linker would have taken that one. So malloc and free are certain where such a module calls them, and where the C
 * library does.
 */
#include "guard/mismatch.h"
#include "base/real.h"
#include "walk/modules.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>

uint32_t mismatch_operators;

/* A module's addresses, and its verdict: modules are few, and each has some thousand symbols. */
static struct verdict {
    uint64_t start, end;
    const void *identity;
    int calls_by_name;
} verdicts[64];

static int is_within(const struct module *module, uint64_t address, uint64_t bytes) {
    return address >= module->start && address <= module->end && module->end - address >= bytes;
}

static int is_operator(const char *name) {
    return memcmp(name, "_Znw", 4) == 0 || memcmp(name, "_Zna", 4) == 0 || memcmp(name, "_Zdl", 4) == 0 ||
           memcmp(name, "_Zda", 4) == 0;
}

/* The dynamic section, by the program headers of the image in memory (gABI chapter 5); 0: there is none. */
static uint64_t dynamic_of(const struct module *module, uint64_t *base) {
    const ElfW(Ehdr) *elf = (const ElfW(Ehdr) *)module->start;
    if (memcmp(elf->e_ident, ELFMAG, SELFMAG) != 0 || elf->e_phentsize != sizeof(ElfW(Phdr)) ||
        elf->e_phoff + elf->e_phnum * sizeof(ElfW(Phdr)) > ARCH_PAGE)
        return 0;
    const ElfW(Phdr) *segments = (const ElfW(Phdr) *)(module->start + elf->e_phoff);
    uint64_t lowest = UINT64_MAX, dynamic = 0;
    for (int i = 0; i < elf->e_phnum; i++) {
        if (segments[i].p_type == PT_LOAD && segments[i].p_vaddr < lowest)
            lowest = segments[i].p_vaddr;
        if (segments[i].p_type == PT_DYNAMIC)
            dynamic = segments[i].p_vaddr;
    }
    *base = module->start - (lowest & ~(ARCH_PAGE - 1));
    return dynamic != 0 && is_within(module, *base + dynamic, sizeof(ElfW(Dyn))) ? *base + dynamic : 0;
}

/*
 * Symbols of the table: the highest number in a chain of the GNU hash table, and one more. 0: it is not as it should
 * be.
 */
static uint64_t symbols_of(const struct module *module, uint64_t hash) {
    const uint32_t *head = (const uint32_t *)hash;
    if (!is_within(module, hash, 16))
        return 0;
    uint64_t buckets = hash + 16 + head[2] * 8ull, chains = buckets + head[0] * 4ull, first = head[1], last = 0;
    if (!is_within(module, buckets, head[0] * 4ull))
        return 0;
    for (uint64_t i = 0; i < head[0]; i++) {
        uint32_t bucket = ((const uint32_t *)buckets)[i];
        last = bucket > last ? bucket : last;
    }
    if (last < first)
        return first;
    for (;; last++) {
        uint64_t chain = chains + (last - first) * 4;
        if (!is_within(module, chain, 4))
            return 0;
        if ((*(const uint32_t *)chain & 1) != 0)
            return last + 1;
    }
}

/* Whether the module imports an operator, and defines none. */
static int imports_operators(const struct module *module) {
    uint64_t base, symbols = 0, names = 0, hash = 0, at = dynamic_of(module, &base);
    for (; at != 0 && is_within(module, at, sizeof(ElfW(Dyn))); at += sizeof(ElfW(Dyn))) {
        const ElfW(Dyn) *entry = (const ElfW(Dyn) *)at;
        uint64_t address = entry->d_un.d_ptr; /* glibc has relocated it, musl has not */
        if (!is_within(module, address, 1))
            address += base;
        if (entry->d_tag == DT_NULL)
            break;
        symbols = entry->d_tag == DT_SYMTAB ? address : symbols;
        names = entry->d_tag == DT_STRTAB ? address : names;
        hash = entry->d_tag == DT_GNU_HASH ? address : hash;
    }
    uint64_t count = symbols != 0 && names != 0 && hash != 0 ? symbols_of(module, hash) : 0;
    if (!is_within(module, symbols, count * sizeof(ElfW(Sym))))
        return 0;
    int imports = 0;
    for (uint64_t i = 1; i < count; i++) {
        const ElfW(Sym) *symbol = (const ElfW(Sym) *)symbols + i;
        if (!is_within(module, names + symbol->st_name, 4) || !is_operator((const char *)names + symbol->st_name))
            continue;
        if (symbol->st_shndx != SHN_UNDEF)
            return 0;
        imports = 1;
    }
    return imports;
}

static int is_c_library(const struct module *module) {
    static uint64_t inside;
    if (inside == 0)
        inside = (uint64_t)dlsym(RTLD_DEFAULT, "gnu_get_libc_version") | 1;
    return is_within(module, inside, 1);
}

static int calls_by_name(uint64_t return_address) {
    const struct module *module = module_known(return_address);
    if (module == NULL)
        return 0;
    struct verdict *verdict = &verdicts[module->start / ARCH_PAGE % (sizeof verdicts / sizeof *verdicts)];
    if (verdict->start != module->start || verdict->end != module->end || verdict->identity != module->identity)
        *verdict = (struct verdict){module->start, module->end, module->identity,
                                    is_c_library(module) || imports_operators(module)};
    return verdict->calls_by_name;
}

enum mallow_operation mismatch_operation(uint64_t return_address) {
    if (mismatch_operators != MALLOW_OPERATORS_SEEN)
        return MALLOW_OPERATION_UNKNOWN;
    return calls_by_name(return_address) ? MALLOW_OPERATION_MALLOC : MALLOW_OPERATION_MALLOC_MAYBE;
}

/* libstdc++ asks malloc for one byte where operator new is to give none. */
static int is_size(const struct slot *slot, size_t size) {
    return size == slot->usable || (size == 0 && slot->usable == 1);
}

int mismatch_is(const struct slot *slot, struct freeing how, uint64_t return_address) {
    const struct guard_more *more = guard_more((struct slot *)slot);
    int is_new = more->operation >= MALLOW_OPERATION_NEW, is_delete = how.kind >= MALLOW_FREEING_DELETE;
    if (more->operation == MALLOW_OPERATION_UNKNOWN || how.kind == MALLOW_FREEING_UNKNOWN || (!is_new && !is_delete))
        return 0;
    if (is_new && is_delete)
        return (more->operation == MALLOW_OPERATION_NEW && how.kind == MALLOW_FREEING_DELETE_ARRAY) ||
               (more->operation == MALLOW_OPERATION_NEW_ARRAY && how.kind == MALLOW_FREEING_DELETE) ||
               more->alignment != how.alignment || (how.has_size && !is_size(slot, how.size));
    if (is_new ? calls_by_name(return_address) : more->operation == MALLOW_OPERATION_MALLOC)
        return 1;
    if (guard_has_part())
        __atomic_fetch_add(&guard_shared->uncompared, 1, __ATOMIC_RELAXED);
    return 0;
}

void mismatch_describe(const struct slot *slot, struct freeing how, uint8_t bytes[16]) {
    const struct guard_more *more = guard_more((struct slot *)slot);
    memcpy(bytes, &how.size, sizeof how.size);
    bytes[8] = how.has_size;
    bytes[9] = more->operation;
    bytes[10] = how.kind;
    bytes[11] = more->alignment;
    bytes[12] = how.alignment;
}

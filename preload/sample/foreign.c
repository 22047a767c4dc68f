/*
 * Programs that give blocks of malloc to functions which are not ours: a program of jemalloc's may end what malloc
 * returned by sdallocx, which knows nothing of slots. Where a module imports such a function of the underlying
 * allocator, nothing is sampled.
 *
 * What a program looks up by dlsym, and what a library imports that is loaded later, is not found.
 */
#include "sample/foreign.h"
#include "base/real.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>

/* Beginnings of names: jemalloc's, mimalloc's, tcmalloc's, and those of C23. */
static const char beginnings[] = "sdallocx\0dallocx\0rallocx\0xallocx\0sallocx\0"
                                 "mi_free\0mi_re\0mi_heap_re\0mi_cfree\0mi_expand\0mi_usable_size\0"
                                 "tc_free\0tc_realloc\0tc_delete\0tc_malloc_size\0tc_cfree\0"
                                 "cfree\0free_sized\0free_aligned_sized\0malloc_size\0";

static int takes_blocks(const char *name) {
    for (const char *at = beginnings; *at != 0; at += strlen(at) + 1)
        if (strncmp(name, at, strlen(at)) == 0)
            return 1;
    return 0;
}

/* What is needed of a module's dynamic section; see the ELF specification, "Dynamic Section", and for the hash table
 * DT_GNU_HASH: symbols that are not in it come first, and undefined ones are not in it. */
struct imports {
    const ElfW(Sym) * symbols;
    const char *strings;
    uint32_t undefined; /* symbols at the begin of the table; 0: unknown */
};

static struct imports imports_of(const struct dl_phdr_info *info) {
    struct imports found = {0};
    const ElfW(Dyn) *entry = NULL;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            entry = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    for (; entry != NULL && entry->d_tag != DT_NULL; entry++) {
        /* glibc has put addresses there, musl leaves what the file says. */
        uintptr_t at = entry->d_un.d_ptr < info->dlpi_addr ? info->dlpi_addr + entry->d_un.d_ptr : entry->d_un.d_ptr;
        if (entry->d_tag == DT_SYMTAB)
            found.symbols = (const ElfW(Sym) *)at;
        else if (entry->d_tag == DT_STRTAB)
            found.strings = (const char *)at;
        else if (entry->d_tag == DT_GNU_HASH)
            found.undefined = ((const uint32_t *)at)[1];
        else if (entry->d_tag == DT_HASH && found.undefined == 0)
            found.undefined = ((const uint32_t *)at)[1];
    }
    return found;
}

/* Whether the module imports such a function, if it is not the vDSO. */
static int imports_one(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)size;
    (void)unused;
    struct imports found = imports_of(info);
    if (found.symbols == NULL || found.strings == NULL || strncmp(info->dlpi_name, "linux-", 6) == 0)
        return 0;
    for (uint32_t i = 1; i < found.undefined; i++)
        if (found.symbols[i].st_shndx == SHN_UNDEF && takes_blocks(found.strings + found.symbols[i].st_name))
            return 1;
    return 0;
}

int foreign_functions;

void foreign_functions_find(void) {
    foreign_functions = real_sizes != REAL_SIZES_IN_HEADS && dl_iterate_phdr(imports_one, NULL) != 0;
}

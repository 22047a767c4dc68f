/*
 * The kernel starts a program without an interpreter (PT_INTERP) by itself: nothing reads LD_PRELOAD then. Whoever
 * executes one is the last that can say so, and it may end before mallow's next look at its processes.
 */
#include "base/unlinked.h"
#include "arch.h"
#include "base/sys.h"

#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

enum {
    FIRST_LINE = 256, /* bytes of a script that the kernel reads for its interpreter */
    MOST_HEADERS = 32,
    MOST_ENTRIES = 64,
    MOST_PATH = 512,
    MOST_INTERPRETERS = 5, /* of interpreters, as the kernel has it */
};

static long read_at(int fd, void *out, size_t bytes, uint64_t offset) {
    return SYS_CALL4(SYS_pread64, fd, out, bytes, offset);
}

/* Whether a dynamic section says that its file is a library: the dynamic linker, executed as a program. */
static int is_library(int fd, const Elf64_Phdr *dynamic) {
    Elf64_Dyn entries[MOST_ENTRIES];
    size_t bytes = dynamic->p_filesz < sizeof entries ? dynamic->p_filesz : sizeof entries;
    long length = read_at(fd, entries, bytes, dynamic->p_offset);
    for (size_t i = 0; length > 0 && i < (size_t)length / sizeof *entries; i++)
        if (entries[i].d_tag == DT_SONAME)
            return 1;
    return 0;
}

/* Of an ELF file that begins with these bytes. One that makes no sense is none. */
static int lacks_linker(int fd, const unsigned char *begin) {
    if (begin[EI_CLASS] == ELFCLASS32)
        return 1;
    Elf64_Ehdr header;
    memcpy(&header, begin, sizeof header);
    Elf64_Phdr headers[MOST_HEADERS];
    size_t bytes = header.e_phnum * sizeof *headers;
    if ((header.e_type != ET_EXEC && header.e_type != ET_DYN) || header.e_phentsize != sizeof *headers ||
        header.e_phnum == 0 || header.e_phnum > MOST_HEADERS ||
        read_at(fd, headers, bytes, header.e_phoff) != (long)bytes)
        return 0;
    for (size_t i = 0; i < header.e_phnum; i++)
        if (headers[i].p_type == PT_INTERP || (headers[i].p_type == PT_DYNAMIC && is_library(fd, &headers[i])))
            return 0;
    return 1;
}

/* The interpreter that the first line of a script names; 0: there is none, or it is too long. */
static int interpreter_of(const char *begin, size_t length, char *path) {
    size_t from = 2, to;
    while (from < length && (begin[from] == ' ' || begin[from] == '\t'))
        from++;
    for (to = from; to < length && strchr(" \t\n", begin[to]) == NULL; to++)
        ;
    if (to == from || to == length)
        return 0;
    memcpy(path, begin + from, to - from);
    path[to - from] = 0;
    return 1;
}

/* A file of PATH, opened, or -1. */
static long open_searched(const char *program) {
    const char *at = getenv("PATH");
    if (at == NULL)
        at = "/bin:/usr/bin";
    size_t length = strlen(program);
    for (;;) {
        size_t directory = strcspn(at, ":");
        char path[MOST_PATH];
        if (directory + length + 2 <= sizeof path) {
            memcpy(path, at, directory);
            path[directory] = '/';
            memcpy(path + directory + 1, program, length + 1);
            /* In an empty entry of PATH it is the working directory's. */
            long fd = sys_open(directory == 0 ? program : path, O_RDONLY | O_NONBLOCK, 0);
            if (fd >= 0)
                return fd;
        }
        if (at[directory] == 0)
            return -1;
        at += directory + 1;
    }
}

/* The path of an open file. */
static void name_of(long fd, const char *program, char *path, size_t bytes) {
    char link[32] = "/proc/self/fd/";
    *text_decimal(link + strlen(link), (uint32_t)fd) = 0;
    long length = sys_readlink(link, path, bytes - 1);
    if (length > 0)
        path[length] = 0;
    else
        text_copy(path, program, bytes);
}

int is_unlinked(const char *program, int searches, char *path, size_t bytes) {
    char interpreter[FIRST_LINE];
    for (int depth = 0; depth < MOST_INTERPRETERS; depth++) {
        union {
            unsigned char elf[sizeof(Elf64_Ehdr)];
            char text[FIRST_LINE];
        } begin;
        long fd = searches && strchr(program, '/') == NULL ? open_searched(program)
                                                           : sys_open(program, O_RDONLY | O_NONBLOCK, 0);
        if (fd < 0)
            return 0;
        long length = read_at((int)fd, &begin, sizeof begin, 0);
        int is_elf = length >= (long)sizeof begin.elf && memcmp(begin.elf, ELFMAG, SELFMAG) == 0;
        int found = is_elf && lacks_linker((int)fd, begin.elf);
        if (found)
            name_of(fd, program, path, bytes);
        sys_close((int)fd);
        if (is_elf || length < 2 || memcmp(begin.text, "#!", 2) != 0 ||
            !interpreter_of(begin.text, (size_t)length, interpreter))
            return found;
        program = interpreter;
        searches = 0;
    }
    return 0;
}

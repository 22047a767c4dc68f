/* Seals all that is mapped from files, as a program and libraries that are linked for it are (mseal), then allocates for each
 * line of input: prints how many allocations and frees it made. Where the kernel has no mseal it prints that in place of "ready". */
#include "target.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#ifndef SYS_mseal
#define SYS_mseal 462
#endif

static void *volatile sink;

/* Whether the kernel can. The code must not be changed by anybody in the process afterwards. */
static int seal(void) {
    static char text[1 << 16];
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    size_t length = 0;
    for (ssize_t n; (n = read(fd, text + length, sizeof text - 1 - length)) > 0;)
        length += (size_t)n;
    CHECK(length > 0 && length < sizeof text - 1);
    close(fd);
    int code = 0;
    for (char *one = strtok(text, "\n"); one; one = strtok(NULL, "\n")) {
        unsigned long start, end;
        char rights[5];
        CHECK(sscanf(one, "%lx-%lx %4s", &start, &end, rights) == 3);
        if (!strchr(one, '/'))
            continue;
        if (syscall(SYS_mseal, start, end - start, 0ul) != 0) {
            CHECK(errno == ENOSYS);
            return 0;
        }
        if (rights[2] == 'x') {
            CHECK(mprotect((void *)start, end - start, PROT_READ | PROT_WRITE | PROT_EXEC) != 0 && errno == EPERM);
            code++;
        }
    }
    CHECK(code >= 2);
    return 1;
}

int main(void) {
    setbuf(stdout, NULL);
    if (!seal()) {
        puts("no mseal");
        return 0;
    }
    puts("ready");
    while (line()) {
        int allocations = 0, frees = 0;
        for (int i = 0; i < 1000; i++) {
            void *block = i % 3 ? malloc(100 + (size_t)i % 7) : calloc(3, 50);
            allocations++;
            sink = block;
            free(block);
            frees++;
        }
        say("%d %d\n", allocations, frees);
    }
    return 0;
}

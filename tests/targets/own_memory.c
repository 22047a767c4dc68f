/*
 * Blocks from 4,096 call paths, so that tables of stacks have entries, and 2 MiB of the program's own; then what the kernel has in memory
 * of its mappings without a name, and of it in all, as JSON. "waits" goes on until it is ended.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PATHS  4096
#define MAPPED (2u << 20)

static void left(unsigned depth, unsigned rounds);

static void right(unsigned depth, unsigned rounds) {
    if (depth == 0) {
        for (unsigned i = 0; i < rounds; i++)
            memset(malloc(200), 1, 200);
        return;
    }
    left(depth - 1, rounds);
    right(depth - 1, rounds);
}

static void left(unsigned depth, unsigned rounds) {
    if (depth == 0) {
        right(0, rounds);
        return;
    }
    right(depth - 1, rounds);
    left(depth - 1, rounds);
}

int main(int argc, char **argv) {
    char line[4096], rights[5], name[2];
    unsigned long unnamed = 0, rss = 0, size;
    int is_unnamed = 0;
    left(12, 6); /* 2^12 paths */
    char *mapped = mmap(NULL, MAPPED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
        return 1;
    memset(mapped, 1, MAPPED);
    FILE *smaps = fopen("/proc/self/smaps", "r");
    if (smaps == NULL)
        return 1;
    while (fgets(line, sizeof line, smaps) != NULL) {
        int fields = sscanf(line, "%*x-%*x %4s %*s %*s %*s %1s", rights, name);
        if (sscanf(line, "Rss: %lu kB", &size) == 1) {
            rss += size;
            unnamed += is_unnamed ? size : 0;
        } else if (line[0] < 'A' || line[0] > 'Z') /* names of sizes begin with a capital */
            is_unnamed = fields == 1 && rights[3] == 'p';
    }
    fclose(smaps);
    printf("{\"unnamed\": %lu, \"rss\": %lu, \"mapped\": %u}\n", unnamed << 10, rss << 10, MAPPED);
    fflush(stdout);
    if (argc > 1 && strcmp(argv[1], "waits") == 0)
        sleep(300);
    return 0;
}

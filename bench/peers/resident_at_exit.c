/* Writes the RSS of its process at the end to the file that RESIDENT_AT_EXIT names; with RESIDENT_TRIM, once more after
   malloc_trim(0). Nothing here allocates. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A copy: programs that set their title write over their environment. */
static char file[4096];
static int trims;
static pid_t first;

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("RESIDENT_AT_EXIT");
    if (name != NULL)
        strncpy(file, name, sizeof file - 1);
    trims = getenv("RESIDENT_TRIM") != NULL;
    first = getpid();
}

static unsigned long resident(void) {
    char text[2048];
    int fd = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[length > 0 ? length : 0] = 0;
    const char *rss = strstr(text, "\nRss:");
    return rss == NULL ? 0 : strtoul(rss + 5, NULL, 10) * 1024;
}

__attribute__((destructor)) static void end(void) {
    if (file[0] == 0 || getpid() != first)
        return;
    char line[256];
    unsigned long before = resident(), after = before;
    if (trims) {
        malloc_trim(0);
        after = resident();
    }
    int length = snprintf(line, sizeof line, "%s %lu %lu\n", program_invocation_short_name, before, after);
    int fd = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd >= 0 && write(fd, line, (size_t)length) != length)
        _exit(125);
    close(fd);
}

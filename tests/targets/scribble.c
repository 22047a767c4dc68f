/*
 * scribble HOW SEED: a target that turns against the files of its own run directory, which it finds in its maps.
 *   memory    random words over everything that is mapped from there, again and again, while it allocates
 *   header    random words over the first pages, where the counts and offsets are
 *   words     impossible numbers in place of words that look like counts
 *   files     leaves other things there: links, pipes, directories, huge sparse files, files of rubbish
 *   truncate  cuts its files down to nothing
 *   remove    removes the directory's files
 * It never calls into libc again after it began, since its own state is a victim too.
 */
#include "target.h"
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static uint64_t state;
static uint64_t random_word(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

struct map {
    uint64_t *start;
    size_t words;
};

static int find(const char *dir, struct map *maps, int room) {
    FILE *file = fopen("/proc/self/maps", "r");
    CHECK(file);
    char line[8192];
    int found = 0;
    while (found < room && fgets(line, sizeof line, file)) {
        unsigned long start, end;
        char rights[8];
        if (!strstr(line, dir) || sscanf(line, "%lx-%lx %7s", &start, &end, rights) != 3 || rights[1] != 'w')
            continue;
        maps[found++] = (struct map){(uint64_t *)start, (end - start) / 8};
    }
    fclose(file);
    return found;
}

static void end(int signal) {
    (void)signal;
    syscall(SYS_exit_group, 0);
}

int main(int count, char **arguments) {
    CHECK(count == 3);
    const char *how = arguments[1], *given = getenv("MALLOW_DIR");
    state = strtoull(arguments[2], NULL, 0) * 2654435761u + 88172645463325252u;
    churn(20000, 1);
    say("scribbling\n");
    if (!given)
        return 0;
    char dir[PATH_MAX];
    CHECK(realpath(given, dir));
    if (!strcmp(how, "files")) {
        CHECK(chdir(dir) == 0);
        CHECK(symlink("/dev/zero", "p-1-0") == 0 && symlink("/etc/passwd", "p-2-0") == 0);
        CHECK(mkfifo("p-3-0", 0666) == 0 && mkdir("p-4-0", 0777) == 0);
        CHECK(symlink("p-5-0", "p-5-0") == 0);
        int fd = open("p-6-0", O_CREAT | O_RDWR, 0666);
        CHECK(fd >= 0 && ftruncate(fd, (off_t)1 << 40) == 0);
        for (int i = 7; i < 60; i++) {
            char name[64];
            snprintf(name, sizeof name, i % 2 ? "p-%d-0" : "p-%d-999999999999", i);
            int rubbish = open(name, O_CREAT | O_RDWR, 0666);
            CHECK(rubbish >= 0);
            uint64_t words[1024];
            for (int k = 0; k < 1024; k++)
                words[k] = random_word();
            /* Some begin as a file of this kind should: "MALP", version 1, ready. */
            if (i % 3)
                words[0] = 0x1504c414dull, words[1] = 0x200000001ull;
            CHECK(write(rubbish, words, sizeof words) == sizeof words);
            close(rubbish);
        }
        int odd = open("p-..-\xff\n", O_CREAT | O_RDWR, 0666);
        CHECK(odd >= 0);
        churn(20000, 2);
        return 0;
    }
    if (!strcmp(how, "truncate") || !strcmp(how, "remove")) {
        signal(SIGBUS, end);
        DIR *open_dir = opendir(dir);
        CHECK(open_dir && chdir(dir) == 0);
        for (struct dirent *entry; (entry = readdir(open_dir));) {
            if (entry->d_name[0] != 'p')
                continue;
            if (!strcmp(how, "remove"))
                unlink(entry->d_name);
            else if (truncate(entry->d_name, (off_t)(random_word() % 3 * 4096)))
                continue;
        }
        churn(20000, 2);
        return 0;
    }
    struct map maps[64];
    int found = find(dir, maps, 64);
    for (int s = 1; s < 32; s++)
        if (s != SIGKILL && s != SIGSTOP)
            signal(s, end);
    alarm(2);
    for (int round = 0; round < 400; round++)
        for (int m = 0; m < found; m++) {
            size_t words = maps[m].words;
            if (!strcmp(how, "header"))
                words = words < 4096 ? words : 4096;
            for (int i = 0; i < 200; i++) {
                uint64_t *at = &maps[m].start[random_word() % words];
                if (!strcmp(how, "words")) {
                    if (*at && *at < 1u << 20)
                        *at = random_word() % 2 ? UINT64_MAX : (uint64_t)1 << random_word() % 64;
                } else {
                    *at = random_word() >> random_word() % 64;
                }
            }
            if (round % 40 == 0)
                syscall(SYS_sched_yield);
        }
    syscall(SYS_exit_group, 0);
}

/*
 * Runs a program under a build of libmallow.so, in mallow's place: loaded LIBRARY DIR MODE PROGRAM ARGUMENT…
 *
 * Prints how many events its images recorded, as the last line, and ends as the program did.
 */
#include "base/wire.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char *map(int fd, size_t bytes) {
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    return at;
}

/* A process file, whole; NULL where it is not ready. */
static char *file_at(const char *path) {
    struct stat status;
    int fd = open(path, O_RDWR);
    if (fd < 0 || fstat(fd, &status) != 0 || status.st_size < (off_t)sizeof(struct mallow_process))
        return NULL;
    char *file = map(fd, (size_t)status.st_size);
    close(fd);
    return __atomic_load_n(&((struct mallow_process *)file)->state, __ATOMIC_ACQUIRE) != 0 ? file : NULL;
}

/* No module has an unwind table here. */
static uint64_t answer(char *file) {
    const struct mallow_process *process = (const void *)file;
    struct mallow_module *modules = (void *)(file + process->modules_offset);
    for (uint32_t i = 0; i < __atomic_load_n(&process->modules, __ATOMIC_ACQUIRE); i++)
        modules[i].status = MALLOW_MODULE_WITHOUT;
    munmap(file, process->file_bytes);
    return 0;
}

static uint64_t events_of(char *file) {
    const struct mallow_process *process = (const void *)file;
    const struct mallow_thread *threads = (const void *)(file + process->threads_offset);
    uint64_t events = 0;
    for (uint32_t i = 0; i < process->threads; i++) {
        events += threads[i].head;
        for (int family = 0; family < MALLOW_FAMILY_COUNT; family++)
            events += threads[i].counter[family].allocations;
    }
    if (process->sampling != 0)
        events += ((const struct mallow_sampling *)(file + process->sampling))->begun;
    return events;
}

static uint64_t for_each_file(const char *directory, uint64_t call(char *file)) {
    uint64_t sum = 0;
    DIR *files = opendir(directory);
    for (struct dirent *entry; files != NULL && (entry = readdir(files)) != NULL;) {
        char path[400], *file;
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        if (strncmp(entry->d_name, "p-", 2) == 0 && (file = file_at(path)) != NULL)
            sum += call(file);
    }
    if (files != NULL)
        closedir(files);
    return sum;
}

int main(int argc, char **argv) {
    if (argc < 5)
        return 2;
    const char *directory = argv[2];
    char path[400];
    snprintf(path, sizeof path, "%s/control", directory);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || ftruncate(fd, 4096) != 0)
        return 1;
    struct mallow_control *control = (void *)map(fd, 4096);
    /* Rings have room for all events: nobody reads them while the program runs. */
    *control = (struct mallow_control){.magic = MALLOW_CONTROL_MAGIC,
                                       .version = MALLOW_WIRE_VERSION,
                                       .mode = (uint32_t)atoi(argv[3]),
                                       .max_depth = 16,
                                       .reader_pid = (uint32_t)getpid(),
                                       .reader = (uint32_t)getpid(),
                                       .large_ring_words = 1u << 16,
                                       .small_ring_words = 256,
                                       .max_threads = 32,
                                       .epoch = 1,
                                       .period = 512,
                                       .stack_bytes = 1u << 20,
                                       .max_slots = 1024,
                                       .max_ends = 1024};
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        control->root_pid = (uint32_t)getpid();
        setenv("LD_PRELOAD", argv[1], 1);
        setenv(MALLOW_DIR_VARIABLE, directory, 1);
        execv(argv[4], argv + 4);
        _exit(97);
    }
    int status = 0;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        for_each_file(directory, answer);
        control->epoch++;
        usleep(1000);
    }
    printf("%llu\n", (unsigned long long)for_each_file(directory, events_of));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

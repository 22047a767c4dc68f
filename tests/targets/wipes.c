/*
 * wipes SECRET HOW [COMMAND…]: overwrites its first argument, as clients do with a password, then allocates and ends: "exit", "kill"
 * (after some seconds), "title" (with a title over all arguments, then exit), "name" (likewise, one word), or "waits"
 * (until the file of its second argument is there). "keeps" wipes nothing.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *volatile kept;

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    char how[16];
    snprintf(how, sizeof how, "%s", argv[2]);
    kept = malloc(1000);
    bool is_one_word = strcmp(how, "name") == 0;
    if (is_one_word || strcmp(how, "title") == 0) {
        size_t length = (size_t)(argv[argc - 1] - argv[0]) + strlen(argv[argc - 1]);
        memset(argv[0], 0, length);
        snprintf(argv[0], length, "%s", is_one_word ? "wiper" : "wipes: at work");
    } else if (strcmp(how, "keeps") != 0) {
        memset(argv[1], 'x', strlen(argv[1]));
    }
    free(kept);
    kept = malloc(2000);
    if (strcmp(how, "waits") == 0)
        while (access(argv[3], F_OK) != 0)
            usleep(10000);
    if (strcmp(how, "kill") == 0) {
        sleep(3);
        kill(getpid(), SIGKILL);
    }
    return 0;
}

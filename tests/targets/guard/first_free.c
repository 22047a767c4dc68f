/*
 * first_free HOW: frees what is no block, before it allocates anything. HOW is what that is: static memory, the stack of main or of a
 * thread, mapped memory or an address inside of it, one where nothing is mapped, or a small number; or it is given to realloc. Prints
 * that it went on, by a system call: printf would allocate.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char text[64];

__attribute__((noinline)) static void culprit(void *at) {
    free(at);
}

__attribute__((noinline)) static void *culprit_realloc(void *at) {
    return realloc(at, 100);
}

__attribute__((noinline)) static void *culprit_reallocarray(void *at) {
    return reallocarray(at, 10, 10);
}

static void *in_thread(void *nothing) {
    char room[64] = {0};
    culprit(room + 32);
    return nothing;
}

int main(int count, char **words) {
    const char *how = count > 1 ? words[1] : "";
    char room[64] = {0}, *mapped = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (strcmp(how, "static") == 0)
        culprit(text);
    if (strcmp(how, "stack") == 0)
        culprit(room + 32);
    if (strcmp(how, "thread") == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, in_thread, NULL);
        pthread_join(thread, NULL);
    }
    if (strcmp(how, "mapped") == 0)
        culprit(mapped);
    if (strcmp(how, "inside") == 0)
        culprit(mapped + 4096 + 64);
    if (strcmp(how, "unmapped") == 0)
        culprit((void *)0x123456789000);
    if (strcmp(how, "small") == 0)
        culprit((void *)0x1230);
    if (strcmp(how, "realloc") == 0)
        free(culprit_realloc(text));
    if (strcmp(how, "reallocarray") == 0)
        free(culprit_reallocarray(room + 32));
    write(1, "went on\n", 8);
    return 0;
}

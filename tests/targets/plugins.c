/*
 * plugins ROUNDS A B THREADS deep|flat: loads and unloads the two plugins in turn, hundreds of times, and so do
 * threads; with RTLD_DEEPBIND, in a namespace of their own (dlmopen), and with what a plugin allocated freed after it
 * is gone.
 */
#include "target.h"
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

static char **arguments;
static int rounds, deep;
static uintptr_t last_address;
static long same_address;

static char *work(int round, int flags, int note) {
    void *plugin = dlopen(arguments[2 + round % 2], flags);
    if (!plugin)
        say("%s\n", dlerror());
    CHECK(plugin);
    char *(*function)(size_t) = (char *(*)(size_t))dlsym(plugin, "plugin_work");
    CHECK(function);
    if (note) {
        same_address += (uintptr_t)function == last_address;
        last_address = (uintptr_t)function;
    }
    char *block = function(50 + (size_t)round % 100);
    CHECK(block[0] == (round % 2 ? 'b' : 'a'));
    CHECK(dlclose(plugin) == 0);
    return block;
}

static void *in_thread(void *unused) {
    (void)unused;
    for (int round = 0; round < rounds; round++)
        free(work(round, round % 5 == 0 ? RTLD_NOW | deep : RTLD_LAZY, 0));
    return NULL;
}

int main(int count, char **given) {
    CHECK(count == 6);
    deep = !strcmp(given[5], "deep") ? RTLD_DEEPBIND : 0;
    arguments = given;
    rounds = atoi(given[1]);
    char *kept[16] = {0};
    for (int round = 0; round < rounds; round++) {
        free(kept[round % 16]);
        kept[round % 16] = work(round, round % 3 == 0 ? RTLD_NOW | deep : RTLD_NOW, 1);
    }
    for (int i = 0; i < 16; i++)
        free(kept[i]);
    CHECK(same_address > rounds / 2);
    pthread_t threads[8];
    int started = atoi(given[4]);
    for (int i = 0; i < started; i++)
        CHECK(pthread_create(&threads[i], NULL, in_thread, NULL) == 0);
    for (int i = 0; i < started; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    /* Another namespace has a libc of its own: nothing may cross between the two heaps. */
    void *apart = dlmopen(LM_ID_NEWLM, given[2], RTLD_NOW);
    CHECK(apart);
    char *(*function)(size_t) = (char *(*)(size_t))dlsym(apart, "plugin_work");
    CHECK(function && function(40)[0] == 'a');
    CHECK(dlclose(apart) == 0);
    say("%d rounds\n", rounds);
    return 0;
}

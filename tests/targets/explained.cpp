/* build: -std=c++17 */
// explained HOW [PLUGIN [THREADS]]: allocates the same in each run, where the C library allocates by itself.
//   tls      loads a plugin whose thread_local object allocates, and touches it in main and in THREADS threads that all live at once
//   dlopen   loads the plugin and unloads it, and libraries that are there already, and one that is not
//   threads  THREADS threads that all live at once, and each allocates
#include "target.h"
#include <dlfcn.h>
#include <pthread.h>
#include <vector>

static pthread_barrier_t barrier;
static size_t (*touch)();

static void *work(void *) {
    if (touch != nullptr)
        touch();
    for (int i = 0; i < 100; i++)
        free(keep(malloc(100 + size_t(i))));
    // No thread gets the stack, and the tables, of one that has ended.
    pthread_barrier_wait(&barrier);
    return nullptr;
}

static void *load(const char *path) {
    void *plugin = dlopen(path, RTLD_NOW);
    CHECK(plugin != nullptr);
    return plugin;
}

int main(int count, char **arguments) {
    CHECK(count >= 3);
    const char *how = arguments[1], *plugin = arguments[2];
    if (!strcmp(how, "dlopen")) {
        for (int i = 0; i < 3; i++) {
            void *one = load(plugin), *other = load("libm.so.6"), *again = load("libc.so.6");
            touch = reinterpret_cast<size_t (*)()>(dlsym(one, "plugin_touch"));
            CHECK(touch != nullptr && touch() == size_t(101 + i));
            CHECK(dlopen("/no/such/library.so", RTLD_NOW) == nullptr && dlerror() != nullptr);
            CHECK(dlclose(again) == 0 && dlclose(other) == 0);
        }
        return 0;
    }
    if (!strcmp(how, "tls")) {
        touch = reinterpret_cast<size_t (*)()>(dlsym(load(plugin), "plugin_touch"));
        CHECK(touch != nullptr && touch() == 101);
    }
    unsigned number = unsigned(atoi(arguments[3]));
    CHECK(pthread_barrier_init(&barrier, nullptr, number + 1) == 0);
    std::vector<pthread_t> threads(number);
    for (auto &thread : threads)
        CHECK(pthread_create(&thread, nullptr, work, nullptr) == 0);
    pthread_barrier_wait(&barrier);
    for (auto &thread : threads)
        CHECK(pthread_join(thread, nullptr) == 0);
    say("%u threads\n", number);
    return 0;
}

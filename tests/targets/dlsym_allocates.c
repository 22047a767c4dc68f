/* build: -rdynamic */
/*
 * An executable whose own dlsym allocates before it asks the real one, as some debuggers' and game overlays' do.
 * Whoever looks for the real malloc with dlsym is called back through malloc. The tail call keeps the caller's
 * return address, which RTLD_NEXT depends on.
 */
#include "target.h"
#include <dlfcn.h>
#include <pthread.h>

typedef void *dlsym_function(void *, const char *);
static dlsym_function *real;
static int calls;

__attribute__((noinline)) static void allocate_much(void) {
    void *blocks[40];
    for (size_t i = 0; i < 40; i++) {
        blocks[i] = i % 3 == 0 ? calloc(i + 1, 3) : malloc(i * 10 + 1);
        CHECK(blocks[i] && (uintptr_t)blocks[i] % 16 == 0);
        if (i % 3 == 0)
            for (size_t k = 0; k < (i + 1) * 3; k++)
                CHECK(((char *)blocks[i])[k] == 0);
        memset(blocks[i], (int)i, i + 1);
        if (i % 5 == 4) {
            blocks[i] = realloc(blocks[i], 1000);
            CHECK(blocks[i] && *(char *)blocks[i] == (char)i);
        }
    }
    for (size_t i = 0; i < 40; i++)
        free(blocks[i]);
}

__attribute__((optimize("O2", "optimize-sibling-calls"))) void *dlsym(void *handle, const char *name) {
    calls++;
    allocate_much();
    if (!real)
        real = (dlsym_function *)dlvsym(RTLD_DEFAULT, "dlsym", "GLIBC_2.34");
    return real(handle, name);
}

static void *ask(void *unused) {
    (void)unused;
    for (int i = 0; i < 200; i++) {
        char name[64];
        snprintf(name, sizeof name, "no_such_symbol_%d", i);
        CHECK(!dlsym(RTLD_DEFAULT, name));
        char *error = dlerror();
        CHECK(error && strstr(error, name));
        CHECK(dlsym(RTLD_DEFAULT, "malloc"));
    }
    return NULL;
}

int main(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, ask, NULL) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(calls >= 400);
    say("asked\n");
    return 0;
}

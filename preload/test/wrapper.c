/* A preloaded library of somebody else's, behind libmallow.so: it wraps functions that libmallow.so wraps too. */
#include <dlfcn.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int wrapped_prctl, wrapped_syscall;

EXPORT int prctl(int option, long a, long b, long c, long d) {
    int (*next)(int, long, long, long, long);
    void *symbol = dlsym(RTLD_NEXT, "prctl");
    memcpy(&next, &symbol, sizeof symbol);
    wrapped_prctl++;
    return next(option, a, b, c, d);
}

EXPORT long syscall(long number, long a, long b, long c, long d, long e, long f) {
    long (*next)(long, long, long, long, long, long, long);
    void *symbol = dlsym(RTLD_NEXT, "syscall");
    memcpy(&next, &symbol, sizeof symbol);
    wrapped_syscall++;
    return next(number, a, b, c, d, e, f);
}

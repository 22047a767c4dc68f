/* What glibc before 2.34 has in a library of its own; see libc.c. To musl's dynamic linker it is another name of the C
 * library. */
#define FUNCTION(name)                                                                                                 \
    void name(void) {}

FUNCTION(dladdr)
FUNCTION(dladdr1)
FUNCTION(dlerror)
FUNCTION(dlopen)
FUNCTION(dlsym)

/*
 * The C library, as libmallow.so is linked against it: names without versions. A reference to such a name is answered
 * by each C library: glibc's dynamic linker gives it the first definition that the library has (elf/dl-lookup.c, "No
 * specific version is selected"), and musl's knows no versions. What is not in this list does not link, so nothing new
 * narrows by accident down where the library can be loaded. Of functions only their names count.
 *
 * A function that changed its meaning between versions has no place here: its first one would be called. memcpy's
 * first one may be given areas that overlap, and dlsym's, pthread_setspecific's and clock_gettime's are their newest.
 */
#define FUNCTION(name)                                                                                                 \
    void name(void) {}

FUNCTION(abort)
FUNCTION(__cxa_at_quick_exit)
FUNCTION(__cxa_atexit)
FUNCTION(__cxa_finalize)
FUNCTION(__errno_location)
FUNCTION(clock_gettime)
FUNCTION(dl_iterate_phdr)
FUNCTION(getauxval)
FUNCTION(getenv)
FUNCTION(gnu_get_libc_version)
FUNCTION(memcmp)
FUNCTION(memcpy)
FUNCTION(memmem)
FUNCTION(memmove)
FUNCTION(memset)
FUNCTION(pthread_self)
FUNCTION(__register_atfork)
FUNCTION(sigaddset)
FUNCTION(sigaltstack)
FUNCTION(sigemptyset)
FUNCTION(sigfillset)
FUNCTION(sigorset)
FUNCTION(strchr)
FUNCTION(strcmp)
FUNCTION(strcspn)
FUNCTION(strlen)
FUNCTION(strncmp)
FUNCTION(strrchr)
FUNCTION(strspn)
FUNCTION(strstr)

/* In libpthread before glibc 2.34, which a program without threads does not load: references to these are weak. */
FUNCTION(pthread_key_create)
FUNCTION(pthread_setspecific)

char **environ;
char *program_invocation_name;
char __libc_single_threaded;
/* The dynamic linker's. */
char _r_debug[64];

/* Allocations before main, in constructors, in handlers of atexit, in destructors, and after all of them. */
#include "target.h"

static char *from_preinit, *from_first, *from_last;

static char *note(const char *text) {
    char *block = malloc(strlen(text) + 100);
    CHECK(block);
    strcpy(block, text);
    say("%s\n", block);
    return block;
}

static void preinit(int count, char **arguments, char **environment) {
    (void)count, (void)arguments, (void)environment;
    from_preinit = note("preinit");
}
__attribute__((section(".preinit_array"), used)) static void (*preinit_entry)(int, char **, char **) = preinit;

static void at_exit_of_exit(void) {
    char *block = note("atexit from atexit");
    free(block);
}
static void at_exit(void) {
    free(note("atexit from main"));
    atexit(at_exit_of_exit);
    free(from_first);
}
static void at_exit_early(void) {
    free(note("atexit from a constructor"));
}

__attribute__((constructor(101))) static void first(void) {
    from_first = note("constructor 101");
    churn(100, 1);
}
__attribute__((constructor)) static void last(void) {
    from_last = note("constructor");
    atexit(at_exit_early);
}
__attribute__((destructor)) static void destroy_first(void) {
    free(note("destructor"));
    free(from_last);
    churn(100, 2);
}
__attribute__((destructor(101))) static void destroy_last(void) {
    free(note("destructor 101"));
    free(from_preinit);
}

/* exit_group is the last thing that happens: stdio's own clean-up comes before it, and calls the cookie's close. */
static ssize_t write_cookie(void *cookie, const char *text, size_t size) {
    (void)cookie;
    char *copy = malloc(size + 1);
    memcpy(copy, text, size);
    copy[size] = 0;
    say("after the destructors: %s\n", copy);
    free(copy);
    return (ssize_t)size;
}

int main(void) {
    free(note("main"));
    atexit(at_exit);
    FILE *late = fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_cookie});
    CHECK(late);
    fputs("buffered text", late);
    return 7;
}

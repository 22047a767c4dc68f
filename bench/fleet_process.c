/* A process of a fleet: it allocates a little and frees it, and keeps what it has. With the argument `leak` it keeps
 * a little more each time. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEPT  (2u << 20)
#define TURNS 10 /* a second */

static void *volatile latest;

__attribute__((noinline)) static void keep(size_t bytes) {
    latest = memset(malloc(bytes), 1, bytes);
}

__attribute__((noinline)) static void leak_session(void) {
    char *session = malloc(12u << 10);
    latest = memset(session, 1, 12u << 10);
}

__attribute__((noinline)) static void answer(void) {
    char *text = malloc(3000);
    memset(text, 1, 3000);
    latest = text;
    free(text);
}

int main(int count, char **arguments) {
    int leaks = count > 1 && strcmp(arguments[1], "leak") == 0;
    for (unsigned kept = 0; kept < KEPT; kept += 32u << 10)
        keep(32u << 10);
    for (;;) {
        usleep(1000000 / TURNS);
        answer();
        if (leaks)
            leak_session();
    }
}

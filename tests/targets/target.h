/*
 * What the targets share: output that allocates nothing, and a reason on stderr when the target itself goes wrong.
 * say() formats on the stack and writes at once, so that it works in handlers, after fork and after atexit.
 */
#ifndef TARGET_H
#define TARGET_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((format(printf, 1, 2), unused)) static void say(const char *format, ...) {
    char text[2048];
    va_list list;
    va_start(list, format);
    int length = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    for (int done = 0; done < length;) {
        ssize_t n = write(1, text + done, (size_t)(length - done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        done += (int)n;
    }
}

/* Exit status 99 is the targets' own: it says that the test could not be made, or that its claim is false. */
#define CHECK(claim)                                                                                                   \
    do {                                                                                                               \
        if (!(claim)) {                                                                                                \
            int check_errno = errno;                                                                                   \
            say("%s:%d: false: %s (%s)\n", __FILE__, __LINE__, #claim, strerror(check_errno));                         \
            _exit(99);                                                                                                 \
        }                                                                                                              \
    } while (0)

/* Keeps the compiler from removing an allocation that nothing looks at. */
static inline void *keep(void *block) {
    __asm__ volatile("" : "+r"(block)::"memory");
    return block;
}

/* Allocates, writes to and frees `count` blocks of sizes that depend on `seed` alone. Returns a checksum. */
__attribute__((unused)) static uint64_t churn(unsigned count, unsigned seed) {
    enum { LIVE = 16 };
    unsigned char *live[LIVE] = {0};
    size_t size[LIVE] = {0};
    uint64_t sum = 0;
    for (unsigned i = 0; i < count; i++) {
        seed = seed * 1103515245u + 12345u;
        unsigned at = (seed >> 16) % LIVE;
        if (live[at]) {
            CHECK(live[at][0] == (unsigned char)at && live[at][size[at] - 1] == (unsigned char)at);
            sum += size[at];
            free(live[at]);
        }
        size[at] = 1 + (seed >> 8) % 2000;
        live[at] = (unsigned char *)malloc(size[at]);
        CHECK(live[at]);
        live[at][0] = live[at][size[at] - 1] = (unsigned char)at;
    }
    for (int i = 0; i < LIVE; i++)
        free(live[i]);
    return sum;
}

/* Waits for an empty line of input; 0: it has ended. Not by a stream: a thread that waits here holds no lock of the C library. */
__attribute__((unused)) static int line(void) {
    char c;
    return read(0, &c, 1) == 1;
}

#endif

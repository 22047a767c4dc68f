/* A server of sorts: each request leaks 1000 bytes, fills a place of a cache that is full soon, and does healthy work.
 * It goes on until SIGTERM, which ends it in order, or SIGUSR1, which crashes it. `server steady` leaks nothing, and
 * `server maps` nothing but 4 KiB a request that it maps itself, of 10,000 requests. */
#include "target.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static volatile sig_atomic_t ended, crash;
static void *cache[512];
static int leaks, maps;

static void on_term(int signal) {
    (void)signal;
    ended = 1;
}

static void on_usr1(int signal) {
    (void)signal;
    crash = 1;
}

__attribute__((noinline)) static void keep_request(void) {
    char *kept = malloc(1000);
    if (kept == NULL)
        abort();
    memset(kept, 1, 1000);
    __asm__ volatile("" ::"r"(kept) : "memory");
}

static void map_request(void) {
    const size_t size = 4 << 10;
    char *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
        abort();
    memset(mapped, 1, size);
}

__attribute__((noinline)) static void fill_cache(unsigned number) {
    void **place = &cache[number % 512];
    free(*place);
    *place = malloc(4096);
}

__attribute__((noinline)) static void work(unsigned number) {
    for (unsigned i = 0; i < 20; i++) {
        char *block = malloc(500 + (number + i) % 500);
        if (block == NULL)
            abort();
        block[0] = 1;
        __asm__ volatile("" ::"r"(block) : "memory");
        free(block);
    }
}

__attribute__((noinline)) static void serve(unsigned number) {
    if (leaks)
        keep_request();
    if (maps && number < 10000)
        map_request();
    fill_cache(number);
    work(number);
}

int main(int argc, char **argv) {
    maps = argc > 1 && strcmp(argv[1], "maps") == 0;
    leaks = argc < 2 || (!maps && strcmp(argv[1], "steady") != 0);
    /* Whatever becomes of the test. */
    alarm(120);
    signal(SIGTERM, on_term);
    signal(SIGUSR1, on_usr1);
    for (unsigned number = 0; !ended; number++) {
        serve(number);
        if (crash)
            abort();
        if (number % 2 == 0)
            usleep(1000);
    }
    return 0;
}

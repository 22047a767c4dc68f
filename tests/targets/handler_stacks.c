/*
 * handler_stacks own|other compiled|written: a thread allocates, and a signal interrupts the allocator below a call of mallow's
 * library. The handler stays, on the thread's own stack or another one, until a line comes. "written": the handler is code that
 * was written at run time, without a file and without unwind information. Prints "ready", then, for the first line, "held" once the
 * handler stays there, and "gone on" for the second one once the thread has allocated again.
 */
#include "target.h"
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#define CHECKED 64

static volatile int wanted, held, released;
static volatile unsigned long rounds;
/* What mallow is to find by frames must be at no other place near the handler's stack: addresses are kept inverted. */
/* Of all of mallow's library, of its code, and of the C library's. */
static uintptr_t all[2], library[2], allocator[2];

static void find(const char *name, char right, uintptr_t range[2]) {
    char line[4096];
    range[0] = range[1] = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL);
    while (fgets(line, sizeof line, maps) != NULL) {
        uintptr_t start, end;
        char rights[8];
        if (strstr(line, name) != NULL && sscanf(line, "%lx-%lx %7s", &start, &end, rights) == 3 &&
            strchr(rights, right) != NULL) {
            range[0] = range[0] == 0 ? ~start : range[0];
            range[1] = ~end;
        }
    }
    fclose(maps);
}

static int is_in(uintptr_t address, const uintptr_t range[2]) {
    return ~address <= range[0] && ~address > range[1];
}

/* Of the C library's code, with a return to mallow's close by. No register says so: the handler's frame has all of them. */
__attribute__((noinline)) static int is_below_library(const greg_t *registers) {
    const uintptr_t *stack = (const uintptr_t *)registers[REG_RSP];
    int found = 0;
    for (unsigned i = 0; i < CHECKED; i++)
        found |= is_in(stack[i], library);
    for (int i = REG_R8; i <= REG_RCX; i++)
        found &= !is_in((uintptr_t)registers[i], all);
    return found && is_in((uintptr_t)registers[REG_RIP], allocator);
}

static void stay(int signal, siginfo_t *info, void *context) {
    (void)signal;
    (void)info;
    if (!wanted || held)
        return;
    held = is_below_library(((ucontext_t *)context)->uc_mcontext.gregs);
    while (held && !released)
        usleep(1000);
}

/* push %rbp; mov %rdi,%rbp and a frame that no rule describes; call stay; leave the way it came. */
static void *written(void) {
    static const unsigned char begin[] = {0x55, 0x48, 0x83, 0xec, 0x50, 0x48, 0xb8};
    static const unsigned char end[] = {0xff, 0xd0, 0x48, 0x83, 0xc4, 0x50, 0x5d, 0xc3};
    unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(code != MAP_FAILED);
    void (*function)(int, siginfo_t *, void *) = stay;
    memcpy(code, begin, sizeof begin);
    memcpy(code + sizeof begin, &function, sizeof function);
    memcpy(code + sizeof begin + sizeof function, end, sizeof end);
    return code;
}

static int has_other_stack;

static void *allocate(void *none) {
    size_t bytes = 64 << 10;
    char *memory = mmap(NULL, bytes + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED && mprotect(memory + 4096, bytes, PROT_READ | PROT_WRITE) == 0);
    stack_t stack = {.ss_sp = memory + 4096, .ss_size = bytes};
    CHECK(!has_other_stack || sigaltstack(&stack, NULL) == 0);
    for (;;) {
        void *volatile blocks[16];
        /* Above what threads cache: the allocator has work. */
        for (unsigned i = 0; i < 16; i++)
            blocks[i] = malloc(3000 + i * 16);
        for (unsigned i = 0; i < 16; i++)
            free(blocks[i]);
        rounds++;
    }
    return none;
}

int main(int count, char **arguments) {
    CHECK(count == 3);
    has_other_stack = strcmp(arguments[1], "other") == 0;
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_RESTART | (has_other_stack ? SA_ONSTACK : 0)};
    action.sa_sigaction = stay;
    if (strcmp(arguments[2], "written") == 0) {
        void *code = written();
        memcpy(&action.sa_sigaction, &code, sizeof code);
    }
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, allocate, NULL) == 0);
    say("ready\n");
    CHECK(getchar() == '\n');
    find("libmallow", 'p', all);
    find("libmallow", 'x', library);
    find("/libc.so.6", 'x', allocator);
    CHECK(all[0] != 0 && library[0] != 0 && allocator[0] != 0);
    wanted = 1;
    while (!held) {
        pthread_kill(thread, SIGUSR1);
        usleep(200);
    }
    say("held\n");
    CHECK(getchar() == '\n');
    released = 1;
    for (unsigned long now = rounds; rounds < now + 10;)
        usleep(1000);
    say("gone on\n");
    return getchar() == EOF ? 0 : 1;
}

/*
 * Allocates on stacks of every kind: in signal handlers that interrupt code anywhere (prologues, epilogues, PLT stubs,
 * leaf functions), on an alternate signal stack, on threads' and coroutines' stacks, in functions that realign theirs
 * or grow it, after longjmp, and in plugins that are loaded one in the place of another.
 */
#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <ucontext.h>

static volatile sig_atomic_t ticks;
static void *volatile kept;

__attribute__((noinline)) static void handle_deep(int depth) {
    if (depth > 0)
        handle_deep(depth - 1);
    else
        free(kept), kept = malloc(50);
    ticks = ticks + (depth == 0);
}

static void handler(int signal) {
    handle_deep(signal % 5);
}

static void install(int signal, int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags | SA_RESTART};
    sigaction(signal, &action, NULL);
}

/* Nothing below allocates while the timer runs, so the handler may. */
__attribute__((noinline)) static uint64_t leaf(uint64_t x) {
    return x * 6364136223846793005ull + 1442695040888963407ull;
}

__attribute__((noinline)) static uint64_t many_registers(uint64_t a, uint64_t b, uint64_t c, int depth) {
    uint64_t x = leaf(a), y = leaf(b), z = leaf(c);
    char text[32];
    snprintf(text, sizeof text, "%d", depth);
    if (depth > 0)
        x ^= many_registers(y, z, x, depth - 1);
    return leaf(x) ^ leaf(y) ^ leaf(z) ^ strlen(text);
}

static int compare(const void *a, const void *b) {
    return memcmp(a, b, 8); /* through the PLT, each time */
}

__attribute__((noinline)) static uint64_t work(uint64_t sum) {
    uint64_t values[64];
    for (uint64_t i = 0; i < 64; i++)
        values[i] = leaf(sum + i * 977);
    qsort(values, 64, sizeof values[0], compare);
    return sum + many_registers(values[0], values[1], values[2], 6);
}

static uint64_t busy_for(int wanted) {
    uint64_t sum = 0;
    int until = ticks + wanted;
    while (ticks < until)
        sum = work(sum);
    return sum;
}

/* A SIGTRAP after every instruction, the dynamic linker's that bind the functions included. A frame pointer finds this
 * function's frame while its flags are on the stack. */
__attribute__((noinline, optimize("no-omit-frame-pointer"))) static uint64_t stepped(void) {
    __asm__ volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq" ::: "memory", "cc");
    uint64_t sum = work(1);
    sum += (uint64_t)strtol("12", NULL, 10) + strcspn("text", "x") + (uint64_t)atoi("7");
    __asm__ volatile("pushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq" ::: "memory", "cc");
    return sum;
}

static void timer(int microseconds) {
    struct itimerval every = {{0, microseconds}, {0, microseconds}};
    setitimer(ITIMER_REAL, &every, NULL);
}

/* A vector type wider than the stack's alignment makes the compiler realign, and allocate below saved registers. */
typedef double wide __attribute__((vector_size(32)));

__attribute__((noinline)) static double realigned(int depth, const volatile double *seed) {
    wide local[2] = {{seed[0], 1, 2, depth}, {4, 5, 6, 7}};
    __asm__ volatile("" : : "r"(local) : "memory");
    void *block = malloc(64);
    double below = depth > 0 ? realigned(depth - 1, seed) : 0;
    free(block);
    __asm__ volatile("" : : "r"(local) : "memory");
    return below + local[0][3] + local[1][0];
}

__attribute__((noinline)) static int grown(int depth) {
    char *room = alloca((size_t)depth * 24 + 8);
    memset(room, depth, 8);
    char variable[depth + 1];
    variable[depth] = room[0];
    __asm__ volatile("" : : "r"(variable), "r"(room) : "memory");
    void *block = malloc((size_t)depth + 1);
    int below = depth > 0 ? grown(depth - 1) : 0;
    free(block);
    return below + variable[depth];
}

static ucontext_t home, coroutine[3];

__attribute__((noinline)) static void coroutine_work(int number, int depth) {
    free(malloc(33));
    if (depth > 0)
        coroutine_work(number, depth - 1);
    else
        swapcontext(&coroutine[number], &home);
    free(malloc(44));
}

static void coroutine_main(int number) {
    for (;;)
        coroutine_work(number, number * 3 + 2);
}

static void coroutines(void) {
    static char stack[3][65536];
    for (int i = 0; i < 3; i++) {
        getcontext(&coroutine[i]);
        coroutine[i].uc_stack.ss_sp = stack[i];
        coroutine[i].uc_stack.ss_size = sizeof stack[i];
        makecontext(&coroutine[i], (void (*)(void))coroutine_main, 1, i);
    }
    for (int i = 0; i < 300; i++) {
        swapcontext(&home, &coroutine[i % 3]);
        free(malloc(10));
    }
}

static jmp_buf back;
static void (*volatile leave)(jmp_buf, int) = longjmp;

__attribute__((noinline)) static void jump(int depth) {
    free(malloc((size_t)depth + 1));
    if (depth == 0)
        leave(back, 1);
    else
        jump(depth - 1);
    __asm__ volatile("" ::: "memory");
}

static void jumps(void) {
    for (volatile int i = 0; i < 200; i++)
        if (setjmp(back) == 0)
            jump(i % 17);
}

/* Uses 2 MB of its stack before it allocates again. Linked far away from the rest, so that the program has a hole. */
__attribute__((noinline, section(".far"))) static void far_down(int depth) {
    char room[16384];
    __asm__ volatile("" : : "r"(room) : "memory");
    if (depth > 0)
        far_down(depth - 1);
    else
        free(malloc(70));
    __asm__ volatile("" : : "r"(room) : "memory");
}

/* A thread's first allocation is made within pthread_getattr_np, which holds the thread's lock. */
static void *thread_main(void *argument) {
    pthread_attr_t attributes;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_destroy(&attributes);
    free(malloc(60));
    far_down(128);
    grown(5);
    if (argument != NULL)
        coroutines();
    return argument;
}

/* One thread after the other: they share the coroutines. */
static int threads(void) {
    for (int i = 0; i < 8; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, thread_main, i % 2 ? &thread : NULL) != 0)
            return 0;
        pthread_join(thread, NULL);
    }
    return 1;
}

typedef void plugin_work(int depth);

static int plugins(int count, char **paths) {
    for (int i = 0; i < 20 * count; i++) {
        void *plugin = dlopen(paths[i % count], RTLD_LAZY);
        plugin_work *work = plugin != NULL ? (plugin_work *)dlsym(plugin, "plugin_work") : NULL;
        if (work == NULL)
            return 0;
        work(i % 9);
        dlclose(plugin);
    }
    return 1;
}

int main(int argc, char **argv) {
    static char alternate[65536];
    static const volatile double seed[1] = {3};
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    sigaltstack(&stack, NULL);
    printf("stacks: ");
    fflush(stdout);
    install(SIGTRAP, 0);
    uint64_t sum = stepped();
    install(SIGALRM, 0);
    timer(300);
    sum += busy_for(1000);
    timer(0);
    install(SIGALRM, SA_ONSTACK);
    timer(300);
    sum += busy_for(1000);
    timer(0);
    install(SIGUSR1, SA_ONSTACK);
    for (int i = 0; i < 200; i++)
        raise(SIGUSR1);
    for (int i = 0; i < 100; i++)
        sum += (uint64_t)(realigned(i % 13, seed) + grown(i % 19));
    coroutines();
    jumps();
    int done = sum != 0 && threads() && plugins(argc - 1, argv + 1);
    printf("%s\n", done ? "done" : "failed");
    return !done;
}

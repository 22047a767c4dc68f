// Blocks whose last pointer is on the stack or in the thread-local storage of a thread, which has ended or has not. Each call
// site has its own function, whose name says what is to be found: lost_… or kept_….
//
//   ended_threads WHAT…   does these things in turn: see `things`
#include <atomic>
#include <csignal>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <ucontext.h>
#include <vector>

#include "target.h"

#define OUT __attribute__((noinline, noclone))

struct Node {
    Node *next;
    char data[992];
};

static thread_local Node *volatile list;
static std::atomic<int> ready;
static std::atomic<bool> never;

OUT static void clobber() {
    volatile char stack[16384];
    memset((void *)stack, 0, sizeof stack);
}

OUT static Node *lost_behind_storage() {
    return (Node *)keep(calloc(1, sizeof(Node) + 16));
}
OUT static void *lost_on_stack() {
    return keep(calloc(1, 300));
}
OUT static Node *lost_detached() {
    return (Node *)keep(calloc(1, sizeof(Node) + 32));
}
OUT static Node *lost_in_child() {
    return (Node *)keep(calloc(1, sizeof(Node) + 40));
}
OUT static void *kept_by_result() {
    return keep(calloc(1, 310));
}
OUT static Node *kept_behind_storage() {
    return (Node *)keep(calloc(1, sizeof(Node) + 64));
}
OUT static void *kept_on_stack() {
    return keep(calloc(1, 320));
}
OUT static void *kept_by_argument() {
    return keep(calloc(1, 330));
}
OUT static void *kept_below_stack() {
    return keep(calloc(1, 340));
}
OUT static void *kept_on_old_stack() {
    return keep(calloc(1, 350));
}
OUT static void *kept_by_coroutine() {
    return keep(calloc(1, 360));
}
OUT static void *kept_by_running_coroutine() {
    return keep(calloc(1, 370));
}
OUT static void *kept_by_clone() {
    return keep(calloc(1, 380));
}
OUT static Node *kept_by_main() {
    return (Node *)keep(calloc(1, sizeof(Node) + 80));
}

OUT static Node *kept_after_main() {
    return (Node *)keep(calloc(1, sizeof(Node) + 96));
}

OUT static void push(Node *node) {
    node->next = list;
    list = node;
}

OUT static void *fill(void *) {
    for (int i = 0; i < 20; i++)
        push(lost_behind_storage());
    return nullptr;
}

OUT static void *fill_stack(void *) {
    void *volatile blocks[10];
    for (int i = 0; i < 10; i++)
        blocks[i] = lost_on_stack();
    asm volatile("" ::"r"(blocks) : "memory");
    return nullptr;
}

static pthread_t start(void *(*function)(void *), void *argument = nullptr, pthread_attr_t *attributes = nullptr) {
    pthread_t thread;
    CHECK(pthread_create(&thread, attributes, function, argument) == 0);
    return thread;
}

// All at one time: the C library keeps the stacks of some, and unmaps the others.
OUT static void joined(int count, void *(*function)(void *)) {
    std::vector<pthread_t> threads;
    for (int i = 0; i < count; i++)
        threads.push_back(start(function));
    for (pthread_t thread : threads)
        CHECK(pthread_join(thread, nullptr) == 0);
}

// How many threads the process has.
static nlink_t tasks() {
    struct stat status;
    CHECK(stat("/proc/self/task", &status) == 0);
    return status.st_nlink;
}

OUT static void detached() {
    nlink_t before = tasks();
    for (int i = 0; i < 3; i++)
        CHECK(pthread_detach(start([](void *) -> void * {
                  for (int i = 0; i < 20; i++)
                      push(lost_detached());
                  return nullptr;
              })) == 0);
    do
        usleep(50000);
    while (tasks() > before);
}

[[noreturn]] static void stay() {
    ready++;
    while (!never)
        pause();
    abort();
}

static void wait_for(int count) {
    while (ready < count)
        usleep(1000);
}

// Two wait in a system call, one never leaves its loop.
OUT static void living() {
    for (int i = 0; i < 3; i++) {
        start(
            [](void *runs) -> void * {
                for (int i = 0; i < 20; i++)
                    push(kept_behind_storage());
                void *volatile block = kept_on_stack();
                if (runs == nullptr)
                    stay();
                ready++;
                while (!never)
                    ;
                asm volatile("" ::"r"(block) : "memory");
                return nullptr;
            },
            i == 0 ? &ready : nullptr);
    }
    wait_for(3);
}

// The thread has ended, and whoever joins it gets the block.
OUT static void result() {
    nlink_t before = tasks();
    start([](void *) { return kept_by_result(); });
    do
        usleep(10000);
    while (tasks() > before);
    clobber();
}

// Stacks of threads that have ended are those of others, which have no event of their own.
OUT static void successors() {
    joined(4, fill);
    for (int i = 0; i < 4; i++)
        start(
            [](void *block) -> void * {
                void *volatile own = block;
                asm volatile("" : "+r"(block)::"memory");
                block = nullptr;
                clobber();
                ready++;
                while (!never)
                    usleep(1000000);
                asm volatile("" ::"r"(own) : "memory");
                return nullptr;
            },
            kept_by_argument());
    wait_for(4);
}

static char *map_stack(size_t bytes) {
    char *stack = (char *)mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    CHECK(stack != MAP_FAILED && mprotect(stack + 4096, bytes - 4096, PROT_READ | PROT_WRITE) == 0);
    return stack;
}

// The program's own mapping, with a guard as the C library has it: a part of it is a thread's stack, the rest is not.
OUT static void own_stack(bool lives) {
    const size_t bytes = 1 << 20, below = 256 << 10;
    char *stack = map_stack(bytes);
    pthread_attr_t attributes;
    CHECK(pthread_attr_init(&attributes) == 0);
    if (lives) {
        CHECK(pthread_attr_setstack(&attributes, stack + below, bytes - below) == 0);
        start([](void *) -> void * { stay(); }, nullptr, &attributes);
        wait_for(1);
        ((void **)(stack + 8192))[0] = kept_below_stack();
    } else {
        CHECK(pthread_attr_setstack(&attributes, stack + 4096, bytes - 4096) == 0);
        CHECK(pthread_join(start([](void *) -> void * { return nullptr; }, nullptr, &attributes), nullptr) == 0);
        // It is the program's again, and what the C library left at its top is still there.
        ((void **)(stack + 8192))[0] = kept_on_old_stack();
        ((void **)(stack + bytes / 2))[0] = kept_on_old_stack();
        ((void **)(stack + bytes - 16384))[0] = kept_on_old_stack();
    }
}

static ucontext_t leaves, left;

OUT static void leave() {
    void *volatile block = kept_by_coroutine();
    swapcontext(&left, &leaves);
    asm volatile("" ::"r"(block) : "memory");
}

OUT static void run_on() {
    void *volatile block = kept_by_running_coroutine();
    ready++;
    while (!never)
        pause();
    asm volatile("" ::"r"(block) : "memory");
}

static void coroutine(ucontext_t *context, ucontext_t *back, void (*function)()) {
    const size_t bytes = 256 << 10;
    CHECK(getcontext(context) == 0);
    context->uc_stack.ss_sp = map_stack(bytes) + 4096;
    context->uc_stack.ss_size = bytes - 4096;
    context->uc_link = back;
    makecontext(context, function, 0);
}

// One has left its stack for a while; on the other one, a thread runs.
OUT static void coroutines() {
    coroutine(&left, nullptr, leave);
    CHECK(swapcontext(&leaves, &left) == 0);
    start([](void *) -> void * {
        static ucontext_t runs, back;
        coroutine(&runs, &back, run_on);
        swapcontext(&back, &runs);
        return nullptr;
    });
    wait_for(1);
    clobber();
}

static void *volatile for_clone;

OUT static int cloned(void *) {
    void *volatile block = for_clone;
    for_clone = nullptr;
    for (;;)
        syscall(SYS_pause);
    asm volatile("" ::"r"(block) : "memory");
    return 0;
}

// A thread of the kernel's that the C library does not know.
OUT static void raw_clone() {
    const size_t bytes = 256 << 10;
    char *stack = map_stack(bytes);
    for_clone = kept_by_clone();
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
    CHECK(clone(cloned, stack + bytes, flags, nullptr) > 0);
    while (for_clone != nullptr)
        usleep(1000);
}

// Threads of the parent have no stacks in the child, whose own thread has ended.
OUT static void fork_child() {
    joined(2, fill);
    living();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(pthread_join(start([](void *) -> void * {
                               for (int i = 0; i < 20; i++)
                                   push(lost_in_child());
                               return nullptr;
                           }),
                           nullptr) == 0);
        exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void *in_plugin(void *touch) {
    ((size_t(*)())touch)();
    return nullptr;
}

// Storage that the loader allocates when a thread first uses it.
OUT static void plugin(const char *path) {
    void *library = dlopen(path, RTLD_NOW);
    CHECK(library != nullptr);
    void *touch = dlsym(library, "plugin_fill");
    CHECK(touch != nullptr);
    CHECK(pthread_join(start(in_plugin, touch), nullptr) == 0);
}

OUT static void main_ends() {
    push(kept_by_main());
    start([](void *) -> void * {
        for (int i = 0; i < 20; i++) {
            usleep(20000);
            push(kept_after_main());
        }
        exit(0);
    });
    pthread_exit(nullptr);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *what = argv[i];
        const auto is = [&](const char *name) { return strcmp(what, name) == 0; };
        if (is("one"))
            joined(1, fill);
        else if (is("joined"))
            joined(8, fill);
        else if (is("stack"))
            joined(2, fill_stack);
        else if (is("detached"))
            detached();
        else if (is("living"))
            living();
        else if (is("result"))
            result();
        else if (is("successors"))
            successors();
        else if (is("own-stack"))
            own_stack(true);
        else if (is("old-stack"))
            own_stack(false);
        else if (is("coroutines"))
            coroutines();
        else if (is("clone"))
            raw_clone();
        else if (is("fork"))
            fork_child();
        else if (is("plugin") && i + 1 < argc)
            plugin(argv[++i]);
        else if (is("main-ends"))
            main_ends();
        else
            return 98;
        clobber();
    }
    return 0;
}

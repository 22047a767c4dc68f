/* build: -std=c++17 -fnon-call-exceptions -fasynchronous-unwind-tables */
// Exceptions thrown by handlers of synchronous signals, through frames that allocate, from the usual and from an
// alternate stack; and siglongjmp out of such handlers.
#include "target.h"
#include <csetjmp>
#include <csignal>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <vector>

static thread_local sigjmp_buf back;
static thread_local bool jump;

static void handler(int signal) {
    std::string text(300, 's');
    if (jump)
        siglongjmp(back, 1);
    throw std::runtime_error(text + std::to_string(signal));
}

static int *nowhere;
__attribute__((noinline)) static int fall(int depth) {
    std::vector<std::string> locals(3, std::string(size_t(depth) + 30, 'l'));
    if (depth == 0)
        return *const_cast<volatile int *>(nowhere);
    return fall(depth - 1) + int(locals.size());
}

static void *work(void *argument) {
    std::vector<char> room(256 << 10);
    if (argument) {
        stack_t stack{};
        stack.ss_sp = room.data();
        stack.ss_size = room.size();
        CHECK(sigaltstack(&stack, nullptr) == 0);
    }
    volatile long caught = 0;
    for (volatile int i = 0; i < 300; i = i + 1) {
        jump = i % 3 == 2;
        if (jump && sigsetjmp(back, 1)) {
            caught = caught + 1;
            continue;
        }
        try {
            fall(i % 50);
        } catch (std::exception &error) {
            CHECK(std::string(error.what()).size() == 302);
            caught = caught + 1;
        }
    }
    if (argument) {
        stack_t none{};
        none.ss_flags = SS_DISABLE;
        CHECK(sigaltstack(&none, nullptr) == 0);
    }
    return reinterpret_cast<void *>(long(caught));
}

int main() {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = SA_NODEFER | SA_ONSTACK;
    CHECK(sigaction(SIGSEGV, &action, nullptr) == 0);
    say("%ld on the thread's stack\n", long(work(nullptr)));
    say("%ld on its own stack\n", long(work(&action)));
    pthread_t threads[4];
    for (auto &thread : threads)
        CHECK(pthread_create(&thread, nullptr, work, &action) == 0);
    for (auto &thread : threads) {
        void *caught;
        CHECK(pthread_join(thread, &caught) == 0);
        say("%ld in a thread\n", long(caught));
    }
}

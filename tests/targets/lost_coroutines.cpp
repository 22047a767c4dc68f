/* build: -std=c++20 */
// Frames of coroutines that nobody destroys: some wait, some are over. GCC keeps a frame's address in the frame.
#include "target.h"
#include <coroutine>
#include <memory>

struct Task {
    struct promise_type {
        Task get_return_object() {
            return {std::coroutine_handle<promise_type>::from_promise(*this)};
        }
        std::suspend_never initial_suspend() {
            return {};
        }
        std::suspend_always final_suspend() noexcept {
            return {};
        }
        void return_void() {}
        void unhandled_exception() {
            abort();
        }
    };
    std::coroutine_handle<promise_type> handle;
};

__attribute__((noinline)) static Task lost_frame(bool waits) {
    std::unique_ptr<char[]> block(new char[100]);
    keep(block.get());
    if (waits)
        co_await std::suspend_always();
}

// An object with a reference to itself, whose first word leads to a table of functions: a cycle.
struct Object {
    std::shared_ptr<Object> itself;
    virtual ~Object() = default;
};

__attribute__((noinline)) static void lost_cycle() {
    auto object = std::make_shared<Object>();
    object->itself = object;
}

__attribute__((noinline)) static void clobber() {
    volatile char stack[16384];
    memset((void *)stack, 0, sizeof stack);
    asm volatile(
        "xor %%ebx, %%ebx\n xor %%r12d, %%r12d\n xor %%r13d, %%r13d\n xor %%r14d, %%r14d\n xor %%r15d, %%r15d" ::
            : "rbx", "r12", "r13", "r14", "r15");
}

int main() {
    for (int i = 0; i < 20; i++) {
        lost_frame(i < 12);
        lost_cycle();
    }
    free(keep(malloc(40)));
    clobber();
    return 0;
}

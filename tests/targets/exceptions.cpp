/* build: -std=c++17 -Wno-infinite-recursion */
// Exceptions through deep stacks, out of destructors' callers, rethrown, carried between threads; setjmp over frames.
#include "target.h"
#include <csetjmp>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

struct Guard {
    std::unique_ptr<std::string> text;
    explicit Guard(int depth) : text(std::make_unique<std::string>(size_t(depth % 100) + 20, 'g')) {}
    ~Guard() {
        try {
            throw std::logic_error(*text);
        } catch (std::logic_error &) {
        }
    }
};

__attribute__((noinline)) static void plain(int depth) {
    std::string text(size_t(depth % 50) + 16, 'p');
    if (depth == 0)
        throw std::runtime_error(text);
    plain(depth - 1);
    keep(text.data());
}
__attribute__((noinline)) static void guarded(int depth) {
    Guard guard(depth);
    if (depth == 0)
        throw std::map<std::string, int>{{"a key that is not short", 1}};
    guarded(depth - 1);
}
__attribute__((noinline)) static void rethrown(int depth) {
    try {
        if (depth == 0)
            throw std::out_of_range("the bottom");
        rethrown(depth - 1);
    } catch (std::exception &) {
        std::vector<int> more(size_t(depth) + 1);
        if (depth % 2)
            throw;
        std::throw_with_nested(std::runtime_error("level " + std::to_string(depth)));
    }
}
static int levels(const std::exception &error) {
    try {
        std::rethrow_if_nested(error);
    } catch (std::exception &inner) {
        return 1 + levels(inner);
    }
    return 1;
}
static std::jmp_buf back;
__attribute__((noinline)) static void jumping(int depth) {
    keep(malloc(size_t(depth) + 1));
    if (depth == 0)
        std::longjmp(back, 1);
    jumping(depth - 1);
    keep(&depth);
}

int main() {
    for (volatile int i = 0; i < 20; i = i + 1) {
        volatile int caught = 0;
        try {
            plain(2000);
        } catch (std::runtime_error &error) {
            caught = caught + int(strlen(error.what()));
        }
        try {
            guarded(300);
        } catch (std::map<std::string, int> &map) {
            caught = caught + int(map.size());
        }
        try {
            rethrown(60);
        } catch (std::exception &error) {
            caught = caught + levels(error);
        }
        std::exception_ptr carried;
        std::thread([&] {
            try {
                plain(100);
            } catch (...) {
                carried = std::current_exception();
            }
        }).join();
        try {
            std::rethrow_exception(carried);
        } catch (std::runtime_error &error) {
            caught = caught + int(strlen(error.what()));
        }
        volatile int jumps = 0;
        if (setjmp(back)) {
            jumps = jumps + 1;
            if (jumps == 5)
                say("caught %d\n", int(caught));
        }
        if (jumps < 5)
            jumping(200);
    }
    try {
        std::function<void()> empty;
        empty();
    } catch (std::bad_function_call &) {
        say("a function that is not there\n");
    }
    plain(30);
}

/* build: -std=c++20 */
// C++20 coroutines, whose frames live on the heap: generators, in chains, resumed from other threads.
#include "target.h"
#include <coroutine>
#include <exception>
#include <string>
#include <thread>
#include <utility>
#include <vector>

struct Numbers {
    struct promise_type {
        long value = 0;
        std::exception_ptr error;
        Numbers get_return_object() {
            return Numbers{std::coroutine_handle<promise_type>::from_promise(*this)};
        }
        std::suspend_always initial_suspend() {
            return {};
        }
        std::suspend_always final_suspend() noexcept {
            return {};
        }
        std::suspend_always yield_value(long next) {
            value = next;
            return {};
        }
        void return_void() {}
        void unhandled_exception() {
            error = std::current_exception();
        }
    };
    std::coroutine_handle<promise_type> handle;
    explicit Numbers(std::coroutine_handle<promise_type> of) : handle(of) {}
    Numbers(Numbers &&other) noexcept : handle(std::exchange(other.handle, nullptr)) {}
    ~Numbers() {
        if (handle)
            handle.destroy();
    }
    bool next() {
        handle.resume();
        if (handle.promise().error)
            std::rethrow_exception(handle.promise().error);
        return !handle.done();
    }
    long value() const {
        return handle.promise().value;
    }
};

static Numbers count(long until) {
    std::string text(100, 'c');
    for (long i = 0; i < until; i++)
        co_yield i + long(text.size());
    if (until % 7 == 0)
        throw std::string(40, 'x');
}
static Numbers doubled(Numbers from) {
    std::vector<long> seen;
    while (from.next()) {
        seen.push_back(from.value());
        co_yield from.value() * 2;
    }
}

int main() {
    long sum = 0, thrown = 0;
    for (long i = 1; i < 200; i++) {
        Numbers numbers = doubled(doubled(count(i % 50)));
        try {
            while (numbers.next())
                sum += numbers.value();
        } catch (std::string &) {
            thrown++;
        }
    }
    std::vector<Numbers> many;
    for (long i = 0; i < 100; i++)
        many.push_back(doubled(count(20)));
    for (int turn = 0; turn < 10; turn++)
        std::thread([&] {
            for (auto &numbers : many)
                if (numbers.next())
                    sum += numbers.value();
        }).join();
    say("%ld %ld\n", sum, thrown);
}

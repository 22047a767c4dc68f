/* build: -std=c++17 */
// Allocations in destructors of thread_local objects and of pthread keys; the last one runs in the last round.
#include "target.h"
#include <atomic>
#include <memory>
#include <pthread.h>
#include <string>
#include <thread>
#include <vector>

static pthread_key_t key, other_key;
static std::atomic<unsigned> rounds, objects, late;

static void again(void *value) {
    auto left = reinterpret_cast<uintptr_t>(value);
    rounds++;
    churn(20, unsigned(left));
    free(keep(malloc(left * 100)));
    if (left > 1)
        pthread_setspecific(key, reinterpret_cast<void *>(left - 1));
}
static void free_value(void *value) {
    late++;
    free(value);
    free(keep(calloc(3, 33)));
}

struct Local {
    std::string text = std::string(200, 'x');
    std::unique_ptr<std::vector<int>> numbers = std::make_unique<std::vector<int>>(100, 5);
    ~Local() {
        auto copy = std::make_shared<std::string>(text + text);
        numbers->insert(numbers->end(), copy->size(), 7);
        objects++;
        pthread_setspecific(other_key, malloc(17));
    }
};
static thread_local Local local;

int main() {
    CHECK(pthread_key_create(&key, again) == 0 && pthread_key_create(&other_key, free_value) == 0);
    for (int round = 0; round < 50; round++) {
        std::vector<std::thread> threads;
        for (int i = 0; i < 8; i++)
            threads.emplace_back([] {
                local.text += "y";
                pthread_setspecific(key, reinterpret_cast<void *>(uintptr_t(4)));
            });
        for (auto &thread : threads)
            thread.join();
    }
    local.text += "z";
    say("%u rounds, %u objects, %u late\n", rounds.load(), objects.load(), late.load());
    return 0;
}

// build: -I../preload/include
// Measured regions of all kinds; the arguments name those that run.
#include <mallow.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace {

bool extra = getenv("GATE_EXTRA") != nullptr;

struct Promise {
    std::vector<std::function<int(int)>> callbacks;
};

__attribute__((noinline)) int *planted(int n) {
    int *block = new int[n];
    /* Not a tail call: this function is on the stack. */
    asm volatile("" ::"r"(block) : "memory");
    return block;
}

/* Futures with callbacks: each operation makes one, hangs callbacks on it, and lets it go. */
long steady(void *) {
    long operations = mallow_operations(1000);
    for (long i = 0; i < operations; i++) {
        auto promise = std::make_shared<Promise>();
        for (int c = 0; c < 4; c++)
            promise->callbacks.push_back([promise, c, i, operations](int x) { return int(x + c + i + operations); });
        int value = 0;
        for (auto &callback : promise->callbacks)
            value = callback(value);
        promise->callbacks.clear();
        if (extra) {
            int *more = planted(4);
            more[0] = value;
            delete[] more;
        }
    }
    return operations;
}

/* Eight threads; each frees what its neighbour allocated. */
long threads(void *) {
    constexpr int count = 8, blocks = 1000;
    static std::vector<void *> handed[count];
    static std::mutex locks[count];
    for (auto &list : handed)
        list.reserve(blocks);
    std::vector<std::thread> all;
    all.reserve(count);
    for (int self = 0; self < count; self++)
        all.emplace_back([self] {
            for (int i = 0; i < blocks; i++) {
                void *block = malloc(64);
                std::lock_guard<std::mutex> lock(locks[(self + 1) % count]);
                handed[(self + 1) % count].push_back(block);
            }
            for (int freed = 0; freed < blocks;) {
                std::lock_guard<std::mutex> lock(locks[self]);
                for (void *block : handed[self])
                    free(block);
                freed += int(handed[self].size());
                handed[self].clear();
            }
        });
    for (auto &thread : all)
        thread.join();
    return count * blocks;
}

void *volatile kept;

long leak(void *) {
    kept = malloc(100);
    open("/dev/null", O_RDONLY);
    return 1;
}

long unstable(void *) {
    static int run;
    for (int i = 0; i < 10 + run % 3; i++)
        free(malloc(8));
    run++;
    return 1;
}

long nothing(void *) {
    return 1;
}

long ends_the_program(void *) {
    exit(0);
}

long crashes(void *) {
    abort();
}

long busy(void *) {
    free(malloc(1));
    return 1;
}

} // namespace

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        std::string what = argv[i];
        if (what == "steady")
            mallow_measure("steady", steady, nullptr);
        else if (what == "threads")
            mallow_measure("threads", threads, nullptr);
        else if (what == "leak")
            mallow_measure("leak", leak, nullptr);
        else if (what == "negative") {
            kept = malloc(10);
            mallow_region region;
            mallow_begin(&region, "negative", MALLOW_WHOLE_PROCESS);
            free(kept);
            mallow_end(&region, 1);
        } else if (what == "unstable")
            mallow_measure("unstable", unstable, nullptr);
        else if (what == "nothing")
            mallow_measure("nothing", nothing, nullptr);
        else if (what == "exits")
            mallow_measure("exits", ends_the_program, nullptr);
        else if (what == "crashes")
            mallow_measure("crashes", crashes, nullptr);
        else if (what == "begun") {
            mallow_region region;
            mallow_begin(&region, "begun", MALLOW_THIS_THREAD);
            kept = malloc(3);
            free(kept);
            mallow_end(&region, 1);
        } else if (what == "restless") {
            std::atomic<bool> stop{false};
            // Several: on a busy machine one alone may stand still for so long that it seems at rest.
            std::vector<std::thread> noise;
            for (int i = 0; i < 8; i++)
                noise.emplace_back([&stop] {
                    while (!stop)
                        free(malloc(1));
                });
            mallow_measure("restless", busy, nullptr);
            stop = true;
            for (auto &thread : noise)
                thread.join();
        } else
            return 99;
    }
    return 0;
}

// Allocates below many shapes of C++ frames: templates, virtual calls, lambdas, exceptions that pass through all of
// them, handlers and destructors that allocate while an exception is under way.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Keeper {
    ~Keeper() {
        text = std::make_unique<std::string>(100, 'k');
    }
    std::unique_ptr<std::string> text;
};

struct Shape {
    virtual ~Shape() = default;
    virtual long work(int depth) = 0;
};

template <int N> struct Nested : Shape {
    long work(int depth) override {
        Keeper keeper;
        std::vector<long> values(static_cast<size_t>(depth % 7 + N), depth);
        if (depth == 0)
            throw std::runtime_error("the bottom, with a text too long to be kept in place");
        auto next = std::make_unique<Nested<(N + 1) % 5>>();
        if (depth % 11 == 3) {
            try {
                return next->work(depth - 1);
            } catch (const std::runtime_error &error) {
                std::string text = error.what();
                throw std::logic_error(text + " and caught on the way");
            } catch (const std::logic_error &) {
                auto kept = std::make_unique<Keeper>();
                throw;
            }
        }
        return next->work(depth - 1) + values[0];
    }
};

long sorted(int n) {
    std::vector<std::string> words;
    for (int i = 0; i < n; i++)
        words.push_back("a word that is too long to be kept in place " + std::to_string(i * 7919 % n));
    std::sort(words.begin(), words.end(), [](std::string a, std::string b) { return a < b; });
    std::map<std::string, std::function<int(int)>> map;
    for (const auto &word : words)
        map[word] = [word](int i) { return static_cast<int>(word.size()) + i; };
    long sum = 0;
    for (auto &[word, function] : map)
        sum += function(1);
    return sum;
}

void round_of(int i) {
    try {
        Nested<0>().work(i % 60);
    } catch (const std::exception &error) {
        std::string text = error.what();
        if (text.empty())
            std::abort();
    }
}

} // namespace

int main() {
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; t++)
        threads.emplace_back([] {
            for (int i = 0; i < 300; i++)
                round_of(i);
        });
    for (int i = 0; i < 300; i++)
        round_of(i);
    for (auto &thread : threads)
        thread.join();
    std::printf("%ld\n", sorted(300));
}

// A cache and a leak that allocate by one function. The cache has 2,000 entries, is filled at once, and evicts the oldest entry
// for each new one, 2,000 a second; each session leaves a kilobyte behind, 200 a second.
//
//     shared_helper [SECONDS [LEAVES]]
//
// LEAVES 0: sessions leave nothing behind.

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>

namespace {

struct Node {
    std::string payload;
    Node *next;
};

std::unordered_map<std::uint64_t, std::unique_ptr<std::string>> cache;
std::deque<std::uint64_t> order;
Node *sessions;

__attribute__((noinline)) std::unique_ptr<std::string> make_payload(std::size_t size) {
    return std::make_unique<std::string>(size, 'x');
}

__attribute__((noinline)) void cache_put(std::uint64_t key) {
    constexpr std::size_t capacity = 2000;
    if (order.size() >= capacity) {
        cache.erase(order.front());
        order.pop_front();
    }
    cache[key] = make_payload(1000 + key % 1000);
    order.push_back(key);
}

__attribute__((noinline)) void note_session() {
    auto payload = make_payload(1000);
    sessions = new Node{std::move(*payload), sessions};
}

} // namespace

int main(int argc, char **argv) {
    const double seconds = argc > 1 ? std::atof(argv[1]) : 10;
    const bool leaves = argc < 3 || std::atoi(argv[2]) != 0;
    std::uint64_t key = 0;
    while (key < 2000)
        cache_put(key++);
    const auto begin = std::chrono::steady_clock::now();
    for (std::uint64_t turn = 0;;) {
        const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        if (passed >= seconds)
            return sessions != nullptr && sessions->payload.empty();
        if (static_cast<double>(turn) >= passed * 100) {
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
            continue;
        }
        turn++;
        for (int i = 0; i < 20; i++)
            cache_put(key++);
        for (int i = 0; i < 2 && leaves; i++)
            note_session();
    }
}

// A server as many are: requests come and go, sessions live for seconds, a cache fills up and then evicts, and each
// request leaves 100 bytes behind.
//
//     requests [SECONDS [REQUESTS_PER_SECOND [BYTES_LEFT_BEHIND [warm]]]]
//
// With `warm` the cache is full before the first request. Prints how many requests it served.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

struct Session {
    Clock::time_point ends;
    std::string state;
};

// Holds what was looked up, of 4,000 possible keys at most 2,500.
class Cache {
  public:
    std::size_t look_up(std::uint32_t key) {
        auto found = entries_.find(key);
        if (found == entries_.end()) {
            if (entries_.size() >= capacity) {
                entries_.erase(order_.front());
                order_.pop_front();
            }
            found = entries_.emplace(key, load(key)).first;
            order_.push_back(key);
        }
        return found->second.size();
    }

  private:
    static constexpr std::size_t capacity = 2'500;

    static std::string load(std::uint32_t key) {
        return std::string(2000 + key % 1000, 'c');
    }

    std::unordered_map<std::uint32_t, std::string> entries_;
    std::deque<std::uint32_t> order_;
};

// Each entry is remembered, and nobody ever asks for it.
class AuditLog {
  public:
    explicit AuditLog(std::size_t bytes) : bytes_(bytes) {}

    void remember(std::uint64_t request) {
        if (bytes_ == 0)
            return;
        auto *entry = static_cast<char *>(std::malloc(bytes_));
        if (entry == nullptr)
            return;
        std::snprintf(entry, bytes_, "%llu", static_cast<unsigned long long>(request));
        last_ = entry;
    }

  private:
    std::size_t bytes_;
    char *volatile last_ = nullptr;
};

class Server {
  public:
    explicit Server(std::size_t bytes_left) : audit_(bytes_left) {}

    void serve(std::uint64_t number, std::mt19937 &random) {
        const std::vector<std::string> headers = parse(number, random);
        std::string answer;
        for (const auto &header : headers)
            answer += header;
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            if (number % 8 == 0)
                answer.append(cache_.look_up(random() % 4'000) % 64, '.');
            if (number % 20 == 0)
                open_session(random);
            audit_.remember(number);
        }
        served_ += answer.size() > 0;
    }

    void warm() {
        for (std::uint32_t key = 0; key < 2'500; key++)
            cache_.look_up(key);
    }

    std::uint64_t served() const {
        return served_;
    }

  private:
    static std::vector<std::string> parse(std::uint64_t number, std::mt19937 &random) {
        std::vector<std::string> headers;
        for (unsigned i = 0; i < 8; i++)
            headers.emplace_back(100 + random() % 400, static_cast<char>('a' + number % 26));
        return headers;
    }

    void open_session(std::mt19937 &random) {
        const auto now = Clock::now();
        while (!sessions_.empty() && sessions_.front()->ends <= now)
            sessions_.pop_front();
        sessions_.push_back(std::make_unique<Session>(
            Session{now + std::chrono::seconds(3), std::string(1000 + random() % 3000, 's')}));
    }

    std::mutex mutex_;
    Cache cache_;
    std::deque<std::unique_ptr<Session>> sessions_;
    AuditLog audit_;
    std::atomic<std::uint64_t> served_{0};
};

void work(Server &server, unsigned worker, double seconds, double per_second) {
    std::mt19937 random(worker);
    const auto begin = Clock::now();
    for (std::uint64_t number = 0;; number++) {
        const double passed = std::chrono::duration<double>(Clock::now() - begin).count();
        if (passed >= seconds)
            return;
        if (static_cast<double>(number) >= passed * per_second) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        server.serve(number, random);
    }
}

} // namespace

int main(int argc, char **argv) {
    const double seconds = argc > 1 ? std::atof(argv[1]) : 10;
    const double per_second = argc > 2 ? std::atof(argv[2]) : 10'000;
    const std::size_t left = argc > 3 ? static_cast<std::size_t>(std::atol(argv[3])) : 100;
    constexpr unsigned workers = 2;
    Server server(left);
    if (argc > 4 && std::strcmp(argv[4], "warm") == 0)
        server.warm();
    std::vector<std::thread> threads;
    for (unsigned worker = 0; worker < workers; worker++) {
        threads.emplace_back([&, worker] { work(server, worker, seconds, per_second / workers); });
    }
    for (auto &thread : threads)
        thread.join();
    std::printf("%llu requests\n", static_cast<unsigned long long>(server.served()));
}

// A server that keeps what each request brought, about 1 kB of it, reached from three handlers.
//
//     leaky_server [MODE]
//
// Without a mode, SIGTERM kills it. `tidy` ends in order on SIGTERM and frees everything before; `crash` has a fault after a
// second. It serves for two minutes at the most.

#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

namespace {

struct Entry {
    std::string body;
    int user;
};

volatile std::sig_atomic_t ended;
std::vector<std::unique_ptr<Entry>> entries;

__attribute__((noinline)) void remember(const std::string &body, int user) {
    entries.push_back(std::make_unique<Entry>());
    entries.back()->body.assign(body.begin(), body.end());
    // Not the last call: its caller would have it in its own name.
    entries.back()->user = user;
}

__attribute__((noinline)) std::string parse(int number) {
    return std::string(900 + number % 200, 'a');
}

__attribute__((noinline)) std::size_t get(int number) {
    const std::string body = parse(number);
    remember(body, number);
    return body.size();
}

__attribute__((noinline)) std::size_t put(int number) {
    const std::string body = parse(number);
    remember(body, number);
    return body.size() + 1;
}

__attribute__((noinline)) std::size_t erase(int number) {
    const std::string body = parse(number);
    remember(body, number);
    return body.size() + 2;
}

__attribute__((noinline)) std::size_t serve(int number) {
    switch (number % 3) {
    case 0:
        return get(number);
    case 1:
        return put(number);
    default:
        return erase(number);
    }
}

} // namespace

int main(int argc, char **argv) {
    const bool tidy = argc > 1 && std::strcmp(argv[1], "tidy") == 0;
    const bool crash = argc > 1 && std::strcmp(argv[1], "crash") == 0;
    alarm(120);
    if (tidy)
        std::signal(SIGTERM, [](int) { ended = 1; });
    std::size_t sum = 0;
    const auto begin = std::chrono::steady_clock::now();
    for (int number = 0; !ended; number++) {
        sum += serve(number);
        if (number % 4 == 0)
            usleep(1000);
        if (crash && std::chrono::steady_clock::now() - begin > std::chrono::seconds(1))
            std::raise(SIGSEGV);
    }
    entries.clear();
    return sum == 0;
}

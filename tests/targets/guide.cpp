// build: -I../preload/include
// The `program` of the guide's examples: a class Parser, a function load, a region parse, a leak, a process worker, and two
// seconds to choose from. Without an argument `worker` beside it is started, if it is there.
#include <mallow.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <vector>

namespace {
struct Parser {
    __attribute__((noinline)) std::size_t parse(const char *text) {
        std::vector<std::string> words;
        for (int i = 0; i < 20; i++)
            words.push_back(std::string(text) + " is a text that does not fit into a string");
        return words.size();
    }
};

__attribute__((noinline)) char *load(std::size_t bytes) {
    char *all = static_cast<char *>(std::malloc(bytes));
    std::memset(all, 1, bytes);
    return all;
}

char *volatile known;

__attribute__((noinline)) void known_leak() {
    known = static_cast<char *>(std::malloc(100));
}

long parse_all(void *) {
    Parser parser;
    return static_cast<long>(parser.parse("region"));
}

void pause_ms(long ms) {
    timespec time = {0, ms * 1000000};
    nanosleep(&time, nullptr);
}
} // namespace

int main(int, char **arguments) {
    std::string name = arguments[0];
    if (name.find("worker") != std::string::npos) {
        known_leak();
        return 0;
    }
    known_leak();
    known = nullptr;
    pid_t child = fork();
    if (child == 0) {
        execl((name.substr(0, name.rfind('/') + 1) + "worker").c_str(), "worker", nullptr);
        _exit(0);
    }
    waitpid(child, nullptr, 0);
    mallow_measure("parse", parse_all, nullptr);
    Parser parser;
    for (int turn = 0; turn < 22; turn++) {
        char *block = load(100000 + 1000 * static_cast<std::size_t>(turn));
        parser.parse("turn");
        std::free(load(200000)); // large and short-lived
        pause_ms(100);
        std::free(block);
    }
    return 0;
}

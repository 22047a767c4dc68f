// build: -I../preload/include
// Programs as SwiftNIO's allocation tests are: one for each source file, whose name is the identifier that is measured. What one
// does is in its name. Each start appends a line to the file "ran".
#include <mallow.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <pthread.h>
#include <string>
#include <unistd.h>

namespace {

void *volatile kept;

long number(const char *variable, long otherwise) {
    const char *text = getenv(variable);
    return text != nullptr ? atol(text) : otherwise;
}

__attribute__((noinline)) void planted(long blocks) {
    for (long i = 0; i < blocks; i++)
        free(malloc(16));
    asm volatile("" ::: "memory");
}

long tasks(void *) {
    for (long i = 0; i < 1000; i++)
        free(malloc(32));
    planted(number("GATE_EXTRA", 0));
    return 1000;
}

long leaky(void *) {
    for (int i = 0; i < 100; i++)
        kept = malloc(10);
    open("/dev/null", O_RDONLY);
    return 1;
}

/* Runs that differ by up to 10, and processes that differ by GATE_SHIFT. */
long drifting(void *) {
    static int run;
    long blocks = 1000 + 5 * (run++ % 3) + number("GATE_SHIFT", 0);
    for (long i = 0; i < blocks; i++)
        free(malloc(8));
    return 1;
}

/* A worker as libdispatch's: idle for a while, and gone with what it had. */
void *idle(void *block) {
    struct timespec a_while = {0, 300000000};
    nanosleep(&a_while, nullptr);
    free(block);
    return nullptr;
}

void start_worker(bool wait) {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, idle, malloc(64)) != 0)
        abort();
    if (wait)
        pthread_join(thread, nullptr);
    else
        pthread_detach(thread);
}

long worker(void *) {
    start_worker(false);
    return 1;
}

/* Five hundred stacks of some forty functions. */
constexpr int depth = 18;

void next(unsigned path, int at);

#define HANDLER(n)                                                                                                     \
    __attribute__((noinline)) void handle_a_request_of_the_kind_number_##n(unsigned path, int at) {                    \
        next(path, at + 1);                                                                                            \
        asm volatile("" ::: "memory");                                                                                 \
    }
#define HANDLERS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
HANDLERS(HANDLER)
#define NAME(n) handle_a_request_of_the_kind_number_##n,
void (*const handlers[])(unsigned, int) = {HANDLERS(NAME)};

__attribute__((noinline)) void next(unsigned path, int at) {
    if (at < depth) {
        unsigned mixed = (path * 2654435761u) ^ (path >> 3) ^ (unsigned(at) * 40503u * (path | 1));
        handlers[(mixed >> 7) % 16](path, at);
    } else {
        for (unsigned i = 0; i < (path % 50 == 0 ? 500 : 1 + path % 7); i++)
            free(malloc(24));
        if (path == 333)
            planted(number("GATE_EXTRA", 0));
    }
    asm volatile("" ::: "memory");
}

long many(void *) {
    for (unsigned path = 0; path < 500; path++)
        next(path, 0);
    return 1;
}

void run(const std::string &identifier) {
    auto has = [&](const char *part) { return identifier.find(part) != std::string::npos; };
    if (has("frames")) {
        mallow_measure((identifier + "_new").c_str(), tasks, nullptr);
        mallow_measure((identifier + "_held").c_str(), tasks, nullptr);
    } else if (has("worker")) {
        start_worker(true);
        mallow_measure(identifier.c_str(), worker, nullptr);
    } else
        mallow_measure(identifier.c_str(),
                       has("leaky")      ? leaky
                       : has("drifting") ? drifting
                       : has("many")     ? many
                                         : tasks,
                       nullptr);
}

} // namespace

int main(int, char **argv) {
    const char *slash = strrchr(argv[0], '/');
    std::string identifier = slash != nullptr ? slash + 1 : argv[0];
    if (FILE *ran = fopen("ran", "a")) {
        fprintf(ran, "%s\n", identifier.c_str());
        fclose(ran);
    }
    run(identifier);
    return 0;
}

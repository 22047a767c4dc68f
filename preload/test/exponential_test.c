/* Draws: the logarithm, and that what it makes is exponential. */
#include "sample/exponential.h"
#include "test.h"

#include <math.h>
#include <sys/wait.h>

static double exact(uint64_t bits) {
    return -log((double)bits) + 64 * log(2.0);
}

static double ours(uint64_t bits) {
    return (double)exponential_from_bits(bits) / 0x1p56;
}

static void check_near(uint64_t bits) {
    double is = ours(bits), right = exact(bits), error = fabs(is - right);
    if (error > 1e-9 && error > 1e-9 * right) {
        printf("%llx: %.12g, and not %.12g\n", (unsigned long long)bits, is, right);
        CHECK(error <= 1e-9);
    }
}

TEST(the_logarithm_is_right_everywhere) {
    exponential_setup();
    for (unsigned bit = 0; bit < 64; bit++)
        for (uint64_t i = 0; i < 3000; i++) {
            uint64_t below = bit == 0 ? 0 : (1ull << bit) - 1, step = below / 3000;
            check_near((1ull << bit) + (step != 0 ? i * step : i & below));
        }
    CHECK(ours(UINT64_MAX) < 1e-9 && exponential_from_bits(0) == exponential_from_bits(1));
}

TEST(the_logarithm_never_rises) {
    exponential_setup();
    uint64_t last = UINT64_MAX;
    for (uint64_t bits = 1; bits > 0 && bits < UINT64_MAX - (bits >> 14); bits += 1 + (bits >> 14)) {
        uint64_t now = exponential_from_bits(bits);
        CHECK(now <= last);
        last = now;
    }
}

/* P(draw > n) = exp(-n / period) at many n, each within five standard deviations; and the mean. */
static void check_distribution(uint32_t period) {
    enum { DRAWS = 2000000, POINTS = 12 };
    static const double parts[POINTS] = {0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.7, 1, 2, 4, 6, 9};
    uint64_t over[POINTS] = {0};
    double sum = 0;
    struct generator generator = generator_seeded();
    for (int i = 0; i < DRAWS; i++) {
        uint64_t drawn = exponential_distance(exponential_from_bits(generator_next(&generator)), period);
        CHECK(drawn > 0);
        sum += (double)drawn;
        for (int j = 0; j < POINTS; j++)
            over[j] += drawn > (uint64_t)(parts[j] * period);
    }
    /* Of whole bytes: a geometric distribution. */
    double hit = -expm1(-1.0 / period), mean = 1 / hit, deviation = sqrt(1 - hit) / hit / sqrt(DRAWS);
    CHECK(fabs(sum / DRAWS - mean) <= 5 * deviation + 1e-9);
    for (int j = 0; j < POINTS; j++) {
        double p = exp(-floor(parts[j] * period) / period), spread = sqrt(DRAWS * p * (1 - p));
        CHECK(fabs((double)over[j] - DRAWS * p) <= 5 * spread + 1e-6);
    }
}

TEST(draws_are_exponential) {
    exponential_setup();
    static const uint32_t periods[] = {1, 2, 7, 100, 4096, 512 << 10, 1u << 30, UINT32_MAX};
    for (size_t i = 0; i < sizeof periods / sizeof *periods; i++)
        check_distribution(periods[i]);
}

/* Two draws in a row know nothing of each other. */
TEST(draws_are_independent) {
    exponential_setup();
    enum { DRAWS = 1000000 };
    struct generator generator = generator_seeded();
    double last = (double)exponential_distance(exponential_from_bits(generator_next(&generator)), 1u << 20),
           product = 0;
    for (int i = 0; i < DRAWS; i++) {
        double next = (double)exponential_distance(exponential_from_bits(generator_next(&generator)), 1u << 20);
        product += (last / 0x1p20 - 1) * (next / 0x1p20 - 1);
        last = next;
    }
    CHECK(fabs(product / sqrt(DRAWS)) < 5);
}

TEST(threads_and_children_draw_differently) {
    exponential_setup();
    struct generator a = generator_seeded(), b = generator_seeded();
    for (int i = 0; i < 1000; i++)
        CHECK(generator_next(&a) != generator_next(&b));
    int pipes[2];
    CHECK(pipe(pipes) == 0);
    uint64_t of_child, of_parent;
    pid_t pid = fork();
    if (pid == 0) {
        generator_forked();
        struct generator generator = generator_seeded();
        of_child = generator_next(&generator);
        _exit(write(pipes[1], &of_child, sizeof of_child) != sizeof of_child);
    }
    CHECK(read(pipes[0], &of_child, sizeof of_child) == sizeof of_child && waitpid(pid, NULL, 0) == pid);
    struct generator generator = generator_seeded();
    of_parent = generator_next(&generator);
    CHECK(of_child != of_parent);
}

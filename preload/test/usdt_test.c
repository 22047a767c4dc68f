/* What the static probes say. */
#include "samples.h"
#include "test.h"

#include <dlfcn.h>
#include <fenv.h>
#include <math.h>
#include <pthread.h>

uint64_t weighted_bytes(uint64_t size, uint32_t period);

/* As the definition says it, with more digits than the target has. */
static uint64_t expected(uint64_t size, uint32_t period) {
    long double x = (long double)size / period;
    return (uint64_t)(-(long double)size / expm1l(-x) + 0.5L);
}

TEST(a_sample_stands_for_its_share) {
    static const uint32_t periods[] = {1, 2, 3, 1000, 1 << 19, (1u << 19) + 1, UINT32_MAX};
    for (unsigned i = 0; i < sizeof periods / sizeof *periods; i++)
        for (uint64_t size = 1; size < 1ull << 47; size += size / 7 + 1) {
            uint64_t weight = weighted_bytes(size, periods[i]), right = expected(size, periods[i]);
            uint64_t off = weight > right ? weight - right : right - weight;
            CHECK(off <= 1 + right / 1000000000);
        }
}

/* The target's flags of floating point are its own. */
TEST(weights_are_made_of_integers) {
    feclearexcept(FE_ALL_EXCEPT);
    CHECK(weighted_bytes(1000, 524287) != 0);
    CHECK(weighted_bytes(524287, 1000) != 0);
    CHECK(weighted_bytes(70000, 65537) != 0);
    CHECK(fetestexcept(FE_ALL_EXCEPT) == 0);
}

static void *allocate(void *context) {
    *(void **)context = calloc(30, 1000);
    return NULL;
}

static uint64_t heard(const char *name) {
    const uint64_t *value = dlsym(RTLD_DEFAULT, name);
    CHECK(value != NULL);
    return *value;
}

SCENARIO(first_calloc) {
    pthread_t thread;
    void *block = NULL;
    CHECK(pthread_create(&thread, NULL, allocate, &block) == 0);
    pthread_join(thread, NULL);
    CHECK(heard("heard_bytes") == 30000);
    CHECK(heard("heard_count") == 30 && heard("heard_size") == 1000);
    free(block);
}

TEST(the_first_calloc_of_a_thread_says_its_count) {
    static struct reading reading;
    CHECK(setenv("TEST_LIBRARY", getenv("TEST_LISTENING"), 1) == 0);
    samples_make(&reading, 1);
    reading_start(&reading, "first_calloc", NULL);
    reading_finish(&reading);
    CHECK(reading.status == 0);
}

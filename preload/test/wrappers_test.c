/* Functions of the C library that libmallow.so wraps lead to the next definition, in every mode: another preloaded
 * library may wrap them too. */
#include "reader.h"
#include "test.h"

#include <dlfcn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static int calls(const char *name) {
    const int *count = dlsym(RTLD_DEFAULT, name);
    CHECK(count != NULL);
    return *count;
}

SCENARIO(wrapped) {
    int before = calls("wrapped_prctl");
    CHECK(prctl(PR_SET_NAME, "wrapped", 0, 0, 0) == 0);
    CHECK(calls("wrapped_prctl") == before + 1);
    before = calls("wrapped_syscall");
    CHECK(syscall(SYS_getpid) == getpid());
    CHECK(calls("wrapped_syscall") == before + 1);
}

static void check(enum mallow_mode mode, int is_recorded) {
    static struct reading reading;
    reading_make(&reading, mode);
    if (!is_recorded)
        reading.control->magic = 0;
    reading_start(&reading, "wrapped", getenv("TEST_WRAPPER"));
    reading_finish(&reading);
    CHECK(reading.status == 0);
}

TEST(the_next_wrapper_is_called_where_events_are_counted) {
    check(MALLOW_MODE_COUNT, 1);
}

TEST(the_next_wrapper_is_called_where_events_are_traced) {
    check(MALLOW_MODE_TRACE, 1);
}

TEST(the_next_wrapper_is_called_where_nothing_is_counted) {
    check(MALLOW_MODE_IDLE, 1);
}

TEST(the_next_wrapper_is_called_where_allocations_are_sampled) {
    check(MALLOW_MODE_SAMPLE, 1);
}

TEST(the_next_wrapper_is_called_without_a_recording) {
    check(MALLOW_MODE_COUNT, 0);
}

/*
 * All there is to a test program: TEST registers a function, main (test.c) runs
 * each one in a process of its own, so that a crash or a hang is one failed
 * test. SCENARIO registers what a test starts again under libmallow.so.
 */
#ifndef MALLOW_TEST_H
#define MALLOW_TEST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct test {
    const char *name;
    void (*run)(void);
    struct test *next;
};

struct test_list {
    struct test *first, *last;
};

extern struct test_list all_tests, all_scenarios;

void test_add(struct test_list *list, struct test *test);

#define REGISTERED(list, name)                                                                                         \
    static void name(void);                                                                                            \
    __attribute__((constructor)) static void register_##name(void) {                                                   \
        static struct test test = {#name, name, NULL};                                                                 \
        test_add(&list, &test);                                                                                        \
    }                                                                                                                  \
    static void name(void)

#define TEST(name)     REGISTERED(all_tests, name)
#define SCENARIO(name) REGISTERED(all_scenarios, name)

/* Ends the test, or the scenario. These allocate nothing: a scenario's
 * allocations are counted. */
__attribute__((noreturn)) void test_failed(const char *file, int line, const char *what);
void test_texts(const char *file, int line, const char *is, const char *expected);

#define CHECK(claim)                                                                                                   \
    do {                                                                                                               \
        if (!(claim))                                                                                                  \
            test_failed(__FILE__, __LINE__, #claim);                                                                   \
    } while (0)

#define CHECK_TEXT(is, expected) test_texts(__FILE__, __LINE__, is, expected)

#endif

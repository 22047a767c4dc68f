/*
 * threads MODE COUNT: COUNT threads that all allocate, one after the other (sequential), all alive at once
 * (alive), detached (detached), in pairs whose second frees what the first allocated (handover), with names, for a second
 * (named), or alive at once with a block that the C library frees when the thread's last destructor has run (late).
 */
#include "target.h"
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

static pthread_barrier_t barrier;
static _Atomic uint64_t sum;
static sem_t done;

static void *work(void *argument) {
    sum += churn(30, (unsigned)(uintptr_t)argument);
    return NULL;
}
static void *work_alive(void *argument) {
    sum += churn(10, (unsigned)(uintptr_t)argument);
    pthread_barrier_wait(&barrier);
    sum += churn(10, (unsigned)(uintptr_t)argument);
    pthread_barrier_wait(&barrier);
    return NULL;
}
static void *work_late(void *argument) {
    sum += churn(10, (unsigned)(uintptr_t)argument);
    sum += strlen(strerror(100000 + (int)(uintptr_t)argument));
    pthread_barrier_wait(&barrier);
    return NULL;
}
static void *work_named(void *argument) {
    char name[16];
    snprintf(name, sizeof name, "worker-%u", (unsigned)(uintptr_t)argument);
    sum += churn(10, (unsigned)(uintptr_t)argument);
    CHECK(pthread_setname_np(pthread_self(), name) == 0);
    sleep(1);
    sum += churn(10, (unsigned)(uintptr_t)argument);
    return NULL;
}
static void *work_detached(void *argument) {
    work(argument);
    sem_post(&done);
    return NULL;
}
static void *allocate(void *argument) {
    void **blocks = malloc(100 * sizeof *blocks);
    for (size_t i = 0; i < 100; i++)
        blocks[i] = malloc(i + (uintptr_t)argument % 50);
    return blocks;
}
static void *release(void *argument) {
    void **blocks = argument;
    for (int i = 0; i < 100; i++)
        free(blocks[i]);
    free(blocks);
    return NULL;
}

static pthread_t start(void *(*function)(void *), void *argument, int detached) {
    pthread_attr_t attributes;
    CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, 64 << 10) == 0);
    if (detached)
        CHECK(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0);
    pthread_t thread;
    int error;
    /* A detached thread's stack is given back a moment after its last word. */
    while ((error = pthread_create(&thread, &attributes, function, argument)) == EAGAIN && detached)
        usleep(1000);
    CHECK(error == 0);
    CHECK(pthread_attr_destroy(&attributes) == 0);
    return thread;
}

int main(int arguments, char **argument) {
    CHECK(arguments == 3);
    uintptr_t count = (uintptr_t)atol(argument[2]);
    if (!strcmp(argument[1], "sequential")) {
        for (uintptr_t i = 0; i < count; i++)
            CHECK(pthread_join(start(work, (void *)i, 0), NULL) == 0);
    } else if (!strcmp(argument[1], "detached")) {
        CHECK(sem_init(&done, 0, 0) == 0);
        for (uintptr_t i = 0; i < count; i++)
            start(work_detached, (void *)i, 1);
        for (uintptr_t i = 0; i < count; i++)
            while (sem_wait(&done))
                CHECK(errno == EINTR);
    } else if (!strcmp(argument[1], "handover")) {
        for (uintptr_t i = 0; i < count; i++) {
            void *blocks;
            CHECK(pthread_join(start(allocate, (void *)i, 0), &blocks) == 0);
            CHECK(pthread_join(start(release, blocks, 0), NULL) == 0);
        }
    } else if (!strcmp(argument[1], "named")) {
        pthread_t *threads = malloc(count * sizeof *threads);
        for (uintptr_t i = 0; i < count; i++)
            threads[i] = start(work_named, (void *)i, 0);
        for (uintptr_t i = 0; i < count; i++)
            CHECK(pthread_join(threads[i], NULL) == 0);
        free(threads);
    } else {
        int is_late = !strcmp(argument[1], "late");
        CHECK(is_late || !strcmp(argument[1], "alive"));
        CHECK(pthread_barrier_init(&barrier, NULL, (unsigned)count + 1) == 0);
        pthread_t *threads = malloc(count * sizeof *threads);
        for (uintptr_t i = 0; i < count; i++)
            threads[i] = start(is_late ? work_late : work_alive, (void *)i, 0);
        pthread_barrier_wait(&barrier);
        if (!is_late)
            pthread_barrier_wait(&barrier);
        for (uintptr_t i = 0; i < count; i++)
            CHECK(pthread_join(threads[i], NULL) == 0);
        free(threads);
    }
    say("%s %lu: %llu\n", argument[1], (unsigned long)count, (unsigned long long)sum);
    return 0;
}

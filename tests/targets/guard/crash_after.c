/*
 * crash_after HOW: a wrong read gives a value that the program does not have by itself, and that value ends it, in `culprit` as a rule.
 * Without mallow guard each HOW but `threads` ends with status 0, or by what the allocator left in the memory.
 * freed: a pointer of a freed block. behind: one behind a block. divisor: a number of a freed block. checked: one that the program looks
 * at. threads: another thread read freed memory, and this one has a pointer that is NULL by itself. build: -fno-builtin
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct session {
    long state; /* the allocator writes to the first bytes of a freed block */
    long key;
    char *name;
    int parts;
};

static volatile int sum;

__attribute__((noinline)) static struct session *open_session(void) {
    struct session *session = malloc(sizeof *session);
    session->name = strdup("session");
    session->parts = 7;
    return session;
}

__attribute__((noinline)) static void culprit(volatile struct session *session) {
    sum += session->name[3];
}

__attribute__((noinline)) static void culprit_divides(volatile struct session *session) {
    sum += 100 / session->parts;
}

__attribute__((noinline)) static void culprit_checks(volatile struct session *session) {
    if (session->parts != 7)
        abort();
}

__attribute__((noinline)) static void culprit_behind(char *volatile *names, int number) {
    sum += names[number][3];
}

__attribute__((noinline)) static void culprit_null(volatile char *name) {
    sum += name[3];
}

static void *close_session(void *session) {
    free(session);
    return NULL;
}

static void *read_session(void *session) {
    free(session);
    sum += ((volatile struct session *)session)->parts;
    return NULL;
}

static void in_thread(void *work(void *), void *session) {
    pthread_t thread;
    pthread_create(&thread, NULL, work, session);
    pthread_join(thread, NULL);
}

int main(int count, char **words) {
    const char *how = count > 1 ? words[1] : "";
    struct session *session = open_session();
    if (strcmp(how, "threads") == 0) {
        in_thread(read_session, session);
        culprit_null(NULL);
    }
    if (strcmp(how, "behind") == 0) {
        char **names = malloc(2 * sizeof *names);
        names[0] = names[1] = session->name;
        culprit_behind(names, 2);
    }
    in_thread(close_session, session);
    if (strcmp(how, "freed") == 0)
        culprit(session);
    if (strcmp(how, "divisor") == 0)
        culprit_divides(session);
    if (strcmp(how, "checked") == 0)
        culprit_checks(session);
    return 0;
}

/* two_errors: two functions that read what they freed, after each other. Threads and times differ from run to run. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static volatile int sink;

__attribute__((noinline)) static void culprit_one(void) {
    char *block = malloc(20);
    free(block);
    usleep(getpid() % 7 * 1000);
    sink = block[1];
}

__attribute__((noinline)) static void *culprit_two(void *nothing) {
    char *block = malloc(20);
    free(block);
    sink = block[1];
    return nothing;
}

int main(void) {
    culprit_one();
    pthread_t thread;
    pthread_create(&thread, NULL, culprit_two, NULL);
    pthread_join(thread, NULL);
    return 0;
}

/* Eight threads that start short-lived threads for ever. Prints "ready". */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static void *brief(void *argument)
{
    return argument;
}

static void *starts(void *argument)
{
    for (;;) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, brief, NULL) == 0) {
            pthread_join(thread, NULL);
        }
    }
    return argument;
}

int main(void)
{
    for (int i = 0; i < 8; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, starts, NULL);
    }
    puts("ready");
    fflush(stdout);
    pause();
}

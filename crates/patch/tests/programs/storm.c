/* Threads that allocate and free for ever, and check what they get; a timer's signals interrupt them. The number of threads is
 * the argument. Prints "ready". Ends at the end of standard input: 0 if no block was wrong. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static volatile int over, wrong;
static volatile sig_atomic_t ticks;

static void tick(int signal)
{
    (void)signal;
    ticks++;
}

static void *storm(void *argument)
{
    unsigned seed = (unsigned)(size_t)argument;
    while (!over) {
        seed = seed * 1103515245 + 12345;
        size_t size = seed >> 16 & 1023;
        char *block = malloc(size + 1), *zeros = calloc(size + 1, 2);
        memset(block, (int)size, size + 1);
        block = realloc(block, size * 2 + 1);
        for (size_t i = 0; i <= size; i++)
            if (block[i] != (char)size || zeros[i] != 0)
                wrong = 1;
        free(zeros);
        free(block);
    }
    return NULL;
}

int main(int count, char **arguments)
{
    int threads = count > 1 ? atoi(arguments[1]) : 1;
    pthread_t all[64];
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    sigaction(SIGPROF, &action, NULL);
    struct itimerval timer = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_PROF, &timer, NULL);
    for (int i = 0; i < threads; i++)
        pthread_create(&all[i], NULL, storm, (void *)(size_t)(i + 1));
    puts("ready");
    fflush(stdout);
    char byte;
    while (read(0, &byte, 1) > 0) {
    }
    over = 1;
    for (int i = 0; i < threads; i++)
        pthread_join(all[i], NULL);
    return wrong;
}

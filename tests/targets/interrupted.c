/* A timer interrupts every system call that can be interrupted, and nothing restarts them. The sums must be right. */
#include "target.h"
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

static volatile sig_atomic_t ticks;
static void tick(int signal) {
    (void)signal;
    ticks++;
}

static void *writer(void *argument) {
    int fd = *(int *)argument;
    for (unsigned i = 0; i < 20000; i++) {
        unsigned *block = malloc(sizeof i + i % 700);
        *block = i;
        size_t done = 0;
        while (done < sizeof i) {
            ssize_t n = write(fd, (char *)block + done, sizeof i - done);
            if (n < 0)
                CHECK(errno == EINTR);
            else
                done += (size_t)n;
        }
        free(block);
    }
    close(fd);
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_handler = tick};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0 && sigaction(SIGVTALRM, &action, NULL) == 0);
    struct itimerval often = {{0, 150}, {0, 150}};
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0 && setitimer(ITIMER_VIRTUAL, &often, NULL) == 0);
    int ends[2];
    CHECK(pipe(ends) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, writer, &ends[1]) == 0);
    uint64_t sum = 0;
    unsigned number;
    for (size_t have = 0;;) {
        ssize_t n = read(ends[0], (char *)&number + have, sizeof number - have);
        if (n == 0)
            break;
        if (n < 0) {
            CHECK(errno == EINTR);
            continue;
        }
        have += (size_t)n;
        if (have == sizeof number) {
            sum += number;
            free(keep(malloc(number % 3000)));
            have = 0;
        }
    }
    CHECK(pthread_join(thread, NULL) == 0);
    for (int i = 0; i < 40; i++) {
        pid_t pid = fork();
        while (pid < 0) {
            CHECK(errno == EAGAIN || errno == EINTR);
            pid = fork();
        }
        if (pid == 0)
            _exit(churn(300, 1) == churn(300, 1) ? 3 : 4);
        int status;
        while (waitpid(pid, &status, 0) < 0)
            CHECK(errno == EINTR);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
        pthread_t more[8];
        for (int k = 0; k < 8; k++)
            CHECK(pthread_create(&more[k], NULL, (void *(*)(void *))keep, malloc(10)) == 0);
        for (int k = 0; k < 8; k++) {
            void *block;
            CHECK(pthread_join(more[k], &block) == 0);
            free(block);
        }
    }
    sum += churn(200000, 7);
    CHECK(ticks > 10);
    say("%llu\n", (unsigned long long)sum);
    return 0;
}

/*
 * Blocks that the kernel alone has: events of epoll, the stack for signals, a timer's value. The program gets them back from it at its end, and
 * prints how many. Beside them are blocks of events that were taken out again: those are lost.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS = 50, TAKEN_OUT = 20, STACK = 64 << 10 };

#define OWN __attribute__((noinline, noclone))

/* A value in its place, and no copy elsewhere. */
static void *in_kernel(void *block) {
    if (block == NULL)
        exit(1);
    return memset(block, 1, 16);
}

OWN static void kept_events(int poll) {
    for (int i = 0; i < EVENTS; i++) {
        int ends[2];
        struct epoll_event event = {.events = EPOLLOUT, .data.ptr = in_kernel(malloc(100))};
        if (pipe(ends) != 0 || epoll_ctl(poll, EPOLL_CTL_ADD, ends[1], &event) != 0)
            exit(1);
        memset(&event, 0, sizeof event);
    }
}

OWN static void lost_events(int poll) {
    for (int i = 0; i < TAKEN_OUT; i++) {
        int ends[2];
        struct epoll_event event = {.events = EPOLLOUT, .data.ptr = in_kernel(malloc(200))};
        if (pipe(ends) != 0 || epoll_ctl(poll, EPOLL_CTL_ADD, ends[1], &event) != 0 ||
            epoll_ctl(poll, EPOLL_CTL_DEL, ends[1], NULL) != 0)
            exit(1);
        memset(&event, 0, sizeof event);
    }
}

OWN static void kept_signal_stack(void) {
    stack_t stack = {.ss_sp = in_kernel(malloc(STACK)), .ss_size = STACK};
    if (sigaltstack(&stack, NULL) != 0)
        exit(1);
    memset(&stack, 0, sizeof stack);
}

OWN static void kept_timer(void) {
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    event.sigev_value.sival_ptr = in_kernel(malloc(300));
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0)
        exit(1);
    memset(&event, 0, sizeof event);
}

OWN static void clear_stack(void) {
    char words[16 << 10];
    memset(words, 0, sizeof words);
    __asm__ volatile("" ::"r"(words) : "memory");
}

OWN static int given_back(int poll) {
    struct epoll_event events[EVENTS];
    int count = epoll_wait(poll, events, EVENTS, 0);
    stack_t stack;
    int stacks = sigaltstack(NULL, &stack) == 0 && stack.ss_size == STACK && *(char *)stack.ss_sp == 1;
    memset(events, 0, sizeof events);
    memset(&stack, 0, sizeof stack);
    return count + stacks;
}

int main(void) {
    int poll = epoll_create1(0);
    kept_events(poll);
    lost_events(poll);
    kept_signal_stack();
    kept_timer();
    char line[32];
    int length = snprintf(line, sizeof line, "%d\n", given_back(poll));
    clear_stack();
    return write(STDOUT_FILENO, line, (size_t)length) == length ? 0 : 1;
}

/*
 * What the program asks of the actions of signals, and sets, passes through here: it does not see the handlers of
 * guarding. A handler of its own replaces ours, and where it sets the default action, the handler that takes its place
 * comes back. A program that calls the kernel itself sees ours.
 */
#include "guard/actions.h"
#include "base/sys.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef void (*plain_handler)(int number);

/* The C library's. */
#define SETTERS(X) X(signal) X(bsd_signal) X(ssignal) X(sysv_signal) X(__sysv_signal) X(sigset)
static struct {
    int (*sigaction)(int number, const struct sigaction *action, struct sigaction *old);
#define X(name) plain_handler (*name)(int number, plain_handler action);
    SETTERS(X)
#undef X
} next;

static struct {
    int number;
    action_handler *handler;
    struct sigaction *program;
} hidden;

static struct {
    const int *numbers;
    size_t count;
    action_handler *handler;
} defaults;

static void look_up(void *pointer, const char *name) {
    void *symbol = dlsym(RTLD_NEXT, name);
    memcpy(pointer, &symbol, sizeof symbol);
}

/* A call may come from another library's constructor, before this one. */
__attribute__((constructor)) static void find_setters(void) {
    look_up(&next.sigaction, "sigaction");
#define X(name) look_up(&next.name, #name);
    SETTERS(X)
#undef X
}

int actions_set(int number, const struct sigaction *action, struct sigaction *old) {
    if (UNLIKELY(next.sigaction == NULL))
        find_setters();
    if (UNLIKELY(next.sigaction == NULL)) {
        errno = ENOSYS;
        return -1;
    }
    return next.sigaction(number, action, old);
}

static int has(const struct sigaction *action, action_handler *handler) {
    return handler != NULL && (action->sa_flags & SA_SIGINFO) != 0 && action->sa_sigaction == handler;
}

static int is_taken(int number) {
    for (size_t i = 0; i < defaults.count; i++)
        if (defaults.numbers[i] == number)
            return 1;
    return 0;
}

static int is_default(int number) {
    struct sigaction now;
    return actions_set(number, NULL, &now) == 0 && now.sa_handler == SIG_DFL;
}

/* Where nothing handles it. */
static void take_default(int number) {
    struct sigaction ours = {.sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigfillset(&ours.sa_mask);
    if (hidden.handler != NULL && number == hidden.number && is_default(number)) {
        *hidden.program = (struct sigaction){.sa_handler = SIG_DFL};
        ours.sa_sigaction = hidden.handler;
        actions_set(number, &ours, NULL);
    } else if (is_taken(number) && is_default(number)) {
        ours.sa_sigaction = defaults.handler;
        ours.sa_flags |= (int)SA_RESETHAND;
        actions_set(number, &ours, NULL);
    }
}

void actions_take_defaults(const int *numbers, size_t count, action_handler *handler) {
    defaults.numbers = numbers;
    defaults.handler = handler;
    __atomic_store_n(&defaults.count, count, __ATOMIC_RELEASE);
    for (size_t i = 0; i < count; i++)
        take_default(numbers[i]);
}

void actions_hide(int number, action_handler *handler, struct sigaction *program) {
    hidden.number = number;
    hidden.program = program;
    __atomic_store_n(&hidden.handler, handler, __ATOMIC_RELEASE);
}

/* What the program sees of an action. */
static struct sigaction seen(struct sigaction action) {
    if (has(&action, hidden.handler))
        action = *hidden.program;
    return has(&action, defaults.handler) ? (struct sigaction){.sa_handler = SIG_DFL} : action;
}

EXPORT int sigaction(int number, const struct sigaction *restrict action, struct sigaction *restrict old) {
    int sets_default = action != NULL && action->sa_handler == SIG_DFL;
    int done = actions_set(number, action, old);
    if (done == 0 && old != NULL)
        *old = seen(*old);
    if (done == 0 && sets_default)
        take_default(number);
    return done;
}

static plain_handler set(plain_handler (*function)(int, plain_handler), int number, plain_handler handler) {
    if (UNLIKELY(function == NULL)) {
        errno = ENOSYS;
        return SIG_ERR;
    }
    struct sigaction was = {.sa_handler = SIG_DFL};
    int is_known = actions_set(number, NULL, &was) == 0;
    plain_handler old = function(number, handler);
    if (old == SIG_ERR)
        return old;
    if (handler == SIG_DFL)
        take_default(number);
    return is_known && old == was.sa_handler ? seen(was).sa_handler : old;
}

#define X(name)                                                                                                        \
    EXPORT plain_handler name(int number, plain_handler handler) {                                                     \
        if (UNLIKELY(next.name == NULL))                                                                               \
            find_setters();                                                                                            \
        return set(next.name, number, handler);                                                                        \
    }
SETTERS(X)
#undef X

/* build: -fno-builtin */
/* An executable that brings its own malloc, so that a preloaded one is never asked. */
#include "target.h"
#include <sys/wait.h>

static char room[32 << 20];
static size_t used;
static unsigned long calls;

void *malloc(size_t size) {
    calls++;
    size_t at = __atomic_fetch_add(&used, (size + 31) & ~(size_t)15, __ATOMIC_RELAXED);
    if (at + size + 16 > sizeof room)
        return NULL;
    memcpy(room + at, &size, sizeof size);
    return room + at + 16;
}
void *calloc(size_t count, size_t size) {
    return malloc(count * size);
}
void *realloc(void *old, size_t size) {
    void *block = malloc(size);
    if (old && block) {
        size_t before;
        memcpy(&before, (char *)old - 16, sizeof before);
        memcpy(block, old, before < size ? before : size);
    }
    return block;
}
void free(void *block) {
    (void)block;
}

int main(int count, char **arguments) {
    unsigned long before = calls;
    uint64_t sum = churn(1000, 3);
    say("%llu with %lu calls of my own\n", (unsigned long long)sum, calls - before);
    if (count > 1) {
        pid_t pid = vfork();
        if (pid == 0) {
            execv(arguments[1], arguments + 1);
            _exit(1);
        }
        int status;
        CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
    }
    return 0;
}

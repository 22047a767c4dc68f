/* What the process knows about its recording, and how that ends. */
#include "base/target.h"
#include "arch.h"
#include "base/attachment.h"
#include "base/entries.h"

#include <fcntl.h>
#include <string.h>

struct target target;
__attribute__((visibility("default"))) struct mallow_attachment mallow_attachment = {.magic = MALLOW_ATTACHMENT_MAGIC,
                                                                                     .version = MALLOW_WIRE_VERSION};
uint32_t target_lock;

/* Alone on its page, see target.h. */
static _Alignas(ARCH_PAGE_MOST) union {
    uintptr_t alive;
    char page[ARCH_PAGE_MOST];
} alive_page;
extern uintptr_t image_alive __attribute__((alias("alive_page")));

static const struct policy none;
const struct policy *recording = &none;

void target_stop(void) {
    if (recording->over != NULL)
        recording->over(MALLOW_OVER_NOT);
    __atomic_store_n(&target.over, 1, __ATOMIC_RELAXED);
}

int target_is_stopped(void) {
    return __atomic_load_n(&target.over, __ATOMIC_RELAXED) || __atomic_load_n(&target.losing, __ATOMIC_RELAXED);
}

void target_count_lost(void) {
    if (recording->lose == NULL || target_is_stopped())
        return;
    __atomic_store_n(&target.losing, 1, __ATOMIC_RELAXED);
    recording->lose();
}

int target_resume_in_child(void) {
    int regained = target.losing && !target.over;
    target.losing = 0;
    return regained;
}

static long control_in(const char *directory, int flags) {
    char path[MALLOW_DIRECTORY + 16];
    size_t length = text_copy(path, directory, MALLOW_DIRECTORY);
    memcpy(path + length, "/control", 9);
    return target_open(path, flags | O_NOFOLLOW, 0);
}

/* A mount namespace may have a /dev/shm of its own, or have it read-only. Where it has mallow's process in its
 * /proc, and that may be looked into, the directory is below that process's root: its name has the pid. */
long target_open_control(char directory[MALLOW_DIRECTORY], int flags) {
    text_copy(directory, target.named, MALLOW_DIRECTORY);
    long fd = control_in(directory, flags);
    if (fd != -2 && fd != -30) /* ENOENT, EROFS */
        return fd;
    static const char begin[] = "/mallow-";
    const char *pid = strrchr(target.named, '/');
    if (pid == NULL || strncmp(pid, begin, sizeof begin - 1) != 0)
        return fd;
    for (pid += sizeof begin - 1; *pid == '0';)
        pid++;
    size_t digits = strspn(pid, "0123456789");
    if (digits == 0 || digits > 10 || strlen(target.named) + digits + 16 > MALLOW_DIRECTORY)
        return fd;
    char *at = directory + text_copy(directory, "/proc/", MALLOW_DIRECTORY);
    memcpy(at, pid, digits);
    at += digits;
    memcpy(at, "/root", 5);
    text_copy(at + 5, target.named, MALLOW_DIRECTORY - (size_t)(at + 5 - directory));
    long other = control_in(directory, flags);
    return other < 0 ? fd : other;
}

/*
 * What the kernel reads and writes for the program. A page that is missing makes a system call fail with EFAULT, as the
 * userfaultfd is for user mode alone, and nobody hears of it. So these calls access what of their buffers is no live
 * block before the kernel does: that is the program's error, found like any other, with this function on the stack. The
 * page is there afterwards, and the call goes on.
 *
 * What the program gives back of its own blocks is made to exist again at once, for the same reason.
 */
#include "guard/calls.h"
#include "arch.h"
#include "base/filter.h"
#include "guard/guard_slots.h"
#include "sample/sample.h"
#include "sample/sample_thread.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define EXPORT __attribute__((visibility("default")))

/* Pages that one call accesses at the most: a buffer's size may be anything. */
#define MOST            16
#define DONTNEED_LOCKED 24 /* Linux 5.18 */

static void touch(uint64_t byte, int writes) {
    if (writes)
        arch_touch_for_write((void *)byte);
    else
        (void)*(const volatile uint8_t *)byte;
}

/* The call has bytes behind the live block of this slot: its first missing page is accessed, also where the bytes
 * end before it. The error begins with the first byte that is not the block's. What the kernel then writes up to
 * that page is no other error. */
static void access_behind(struct slot *slot, uint64_t own, uint64_t at, uint64_t end, int writes) {
    uint64_t block_end = slot->seen.address + slot->usable;
    uint32_t tid = !filter_is(FILTER_SEEN)     ? (uint32_t)sys_gettid()
                   : own_sample_thread != NULL ? own_sample_thread->tid
                                               : 0;
    int is_new = guard_given(slot, tid, at > block_end ? at - block_end : 0);
    touch(own, writes);
    if (is_new && guard_not_given(slot) && writes && at <= block_end)
        guard_more(slot)->reported = (uint16_t)((end < own ? end : own) - block_end);
}

/*
 * The kernel reads or writes these bytes: those of the first slot are accessed, live or not, that are no live block's.
 */
NOINLINE static void access_guarded(const void *buffer, uint64_t bytes, int writes) {
    uint64_t at = (uint64_t)buffer, end = at + bytes < at ? UINT64_MAX : at + bytes;
    struct slot *first = guard_slot_of(buffer);
    if (first != NULL && first->used == 1) {
        uint64_t own = first->start + guard_more(first)->pages * ARCH_PAGE;
        if (at < own && at >= first->seen.address && end > first->seen.address + first->usable)
            access_behind(first, own, at, end, writes);
    }
    for (int pages = 0; pages < MOST && at < end && guard_owns((void *)at);) {
        struct slot *slot = guard_slot_of((void *)at);
        if (slot != first)
            return;
        uint64_t own = slot != NULL && slot->used == 1 ? slot->start + guard_more(slot)->pages * ARCH_PAGE : 0;
        if (at < own) {
            at = own;
            continue;
        }
        touch(at, writes);
        at = (at & ~(ARCH_PAGE - 1)) + ARCH_PAGE;
        pages++;
    }
}

static inline void check(const void *buffer, uint64_t bytes, int writes) {
    if (UNLIKELY(guard_owns(buffer)) && guard_is_joined())
        access_guarded(buffer, bytes, writes);
}

/* An address that is none is the kernel's to refuse. */
static int is_array(const void *array, uint64_t bytes) {
    check(array, bytes, 0);
    return !filter_is(FILTER_SEEN) && sys_readable((uint64_t)array) && sys_readable((uint64_t)array + bytes - 1);
}

NOINLINE static void access_vector(const struct iovec *vector, uint64_t count, int writes) {
    if (count == 0 || count > IOV_MAX || !is_array(vector, count * sizeof *vector))
        return;
    for (uint64_t i = 0; i < count; i++)
        check(vector[i].iov_base, vector[i].iov_len, writes);
}

static inline void check_vector(const struct iovec *vector, int count, int writes) {
    if (guard_range.bytes != 0 && guard_is_joined())
        access_vector(vector, (uint64_t)(unsigned)count, writes);
}

static inline void check_message(const struct msghdr *message, int writes) {
    if (guard_range.bytes != 0 && guard_is_joined() && is_array(message, sizeof *message))
        access_vector(message->msg_iov, message->msg_iovlen, writes);
}

/* X(name, result, parameters, arguments, check) */
#define CALLS(X)                                                                                                       \
    X(read, ssize_t, (int fd, void *to, size_t n), (fd, to, n), check(to, n, 1))                                       \
    X(write, ssize_t, (int fd, const void *from, size_t n), (fd, from, n), check(from, n, 0))                          \
    X(pread, ssize_t, (int fd, void *to, size_t n, off_t at), (fd, to, n, at), check(to, n, 1))                        \
    X(pread64, ssize_t, (int fd, void *to, size_t n, off64_t at), (fd, to, n, at), check(to, n, 1))                    \
    X(pwrite, ssize_t, (int fd, const void *from, size_t n, off_t at), (fd, from, n, at), check(from, n, 0))           \
    X(pwrite64, ssize_t, (int fd, const void *from, size_t n, off64_t at), (fd, from, n, at), check(from, n, 0))       \
    X(readv, ssize_t, (int fd, const struct iovec *all, int n), (fd, all, n), check_vector(all, n, 1))                 \
    X(writev, ssize_t, (int fd, const struct iovec *all, int n), (fd, all, n), check_vector(all, n, 0))                \
    X(preadv, ssize_t, (int fd, const struct iovec *all, int n, off_t at), (fd, all, n, at), check_vector(all, n, 1))  \
    X(preadv64, ssize_t, (int fd, const struct iovec *all, int n, off64_t at), (fd, all, n, at),                       \
      check_vector(all, n, 1))                                                                                         \
    X(pwritev, ssize_t, (int fd, const struct iovec *all, int n, off_t at), (fd, all, n, at), check_vector(all, n, 0)) \
    X(pwritev64, ssize_t, (int fd, const struct iovec *all, int n, off64_t at), (fd, all, n, at),                      \
      check_vector(all, n, 0))                                                                                         \
    X(recv, ssize_t, (int fd, void *to, size_t n, int flags), (fd, to, n, flags), check(to, n, 1))                     \
    X(send, ssize_t, (int fd, const void *from, size_t n, int flags), (fd, from, n, flags), check(from, n, 0))         \
    X(recvfrom, ssize_t,                                                                                               \
      (int fd, void *restrict to, size_t n, int flags, struct sockaddr *restrict peer, socklen_t *restrict room),      \
      (fd, to, n, flags, peer, room), check(to, n, 1))                                                                 \
    X(sendto, ssize_t, (int fd, const void *from, size_t n, int flags, const struct sockaddr *peer, socklen_t room),   \
      (fd, from, n, flags, peer, room), check(from, n, 0))                                                             \
    X(recvmsg, ssize_t, (int fd, struct msghdr *all, int flags), (fd, all, flags), check_message(all, 1))              \
    X(sendmsg, ssize_t, (int fd, const struct msghdr *all, int flags), (fd, all, flags), check_message(all, 0))

struct calls {
#define X(name, result, parameters, arguments, check) result(*name) parameters;
    CALLS(X)
#undef X
};

/* The C library's. */
static struct calls next;
static int is_found;

static void look_up(void *pointer, const char *name) {
    void *symbol = dlsym(RTLD_NEXT, name);
    memcpy(pointer, &symbol, sizeof symbol);
}

#define X(name, result, parameters, arguments, check)                                                                  \
    static result checked_##name parameters {                                                                          \
        check;                                                                                                         \
        return next.name arguments;                                                                                    \
    }
CALLS(X)
#undef X

static const struct calls checked = {
#define X(name, result, parameters, arguments, check) .name = checked_##name,
    CALLS(X)
#undef X
};

/* From another library's constructor, before ours. */
#define X(name, result, parameters, arguments, check)                                                                  \
    COLD static result early_##name parameters {                                                                       \
        check;                                                                                                         \
        if (next.name == NULL)                                                                                         \
            look_up(&next.name, #name);                                                                                \
        if (next.name != NULL)                                                                                         \
            return next.name arguments;                                                                                \
        errno = ENOSYS;                                                                                                \
        return -1;                                                                                                     \
    }
CALLS(X)
#undef X

/*
 * What each name leads to: the C library's where nothing is guarded, so that a call costs a load and a jump more than
 * without Mallow.
 */
static struct calls current = {
#define X(name, result, parameters, arguments, check) .name = early_##name,
    CALLS(X)
#undef X
};

#define X(name, result, parameters, arguments, check)                                                                  \
    EXPORT result name parameters {                                                                                    \
        return __atomic_load_n(&current.name, __ATOMIC_RELAXED) arguments;                                             \
    }
CALLS(X)
#undef X

static void lead_to(const struct calls *calls) {
#define X(name, result, parameters, arguments, check)                                                                  \
    if (next.name != NULL)                                                                                             \
        __atomic_store_n(&current.name, calls->name, __ATOMIC_RELAXED);
    CALLS(X)
#undef X
}

void calls_check(void) {
    if (__atomic_load_n(&is_found, __ATOMIC_ACQUIRE))
        lead_to(&checked);
}

__attribute__((constructor(101))) static void find_calls(void) {
#define X(name, result, parameters, arguments, check) look_up(&next.name, #name);
    CALLS(X)
#undef X
    __atomic_store_n(&is_found, 1, __ATOMIC_RELEASE);
    lead_to(target.control != NULL && guarding_is_wanted() ? &checked : &next);
}

/* Whether these pages are a live block's, and there, and may be read. */
static int are_own(uint64_t from, uint64_t bytes) {
    struct slot *slot = guard_owns((void *)from) && guard_is_joined() ? guard_slot_of((void *)from) : NULL;
    if (slot == NULL || slot->used != 1 || guard_protects || filter_is(FILTER_SEEN) || from % ARCH_PAGE != 0 ||
        bytes > slot->start + guard_more(slot)->pages * ARCH_PAGE - from)
        return 0;
    for (uint64_t at = from; at - from < bytes; at += ARCH_PAGE)
        if (!sys_readable(at))
            return 0;
    return bytes != 0;
}

/* Of MADV_FREE nobody knows when the pages go: they stay, as they may. */
EXPORT int madvise(void *address, size_t bytes, int advice) {
    uint64_t from = (uint64_t)address;
    int is_given_back = advice == MADV_DONTNEED || advice == MADV_FREE || advice == DONTNEED_LOCKED;
    int is_own = is_given_back && UNLIKELY(guard_owns(address)) && are_own(from, bytes);
    if (is_own && advice == MADV_FREE)
        return 0;
    long result = SYS_CALL3(SYS_madvise, address, bytes, advice);
    /* While the kernel has nothing to do with them: the keeper fills what is missing. */
    for (uint64_t at = from; is_own && result == 0 && at - from < bytes; at += ARCH_PAGE)
        (void)*(const volatile uint8_t *)at;
    if (result < 0)
        errno = (int)-result;
    return result < 0 ? -1 : 0;
}

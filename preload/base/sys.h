/*
 * Raw system calls: they leave errno alone, do not call into the C library, and are safe in signal handlers and
 * between fork and exec. Each returns its result or -errno.
 */
#ifndef MALLOW_SYS_H
#define MALLOW_SYS_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define LIKELY(x)     __builtin_expect(!!(x), 1)
#define UNLIKELY(x)   __builtin_expect(!!(x), 0)
#define COLD          __attribute__((cold, noinline))
#define NOINLINE      __attribute__((noinline))
#define ALWAYS_INLINE __attribute__((always_inline))
/* For data that several files of the library share: addressed directly, not through the GOT. */
#define HIDDEN __attribute__((visibility("hidden")))

/* A system call that is not below: its number, and arguments of any type. arch.h has arch_syscall. */
#define SYS_CALL6(number, a, b, c, d, e, f)                                                                            \
    arch_syscall((number), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
#define SYS_CALL4(number, a, b, c, d) SYS_CALL6(number, a, b, c, d, 0, 0)
#define SYS_CALL3(number, a, b, c)    SYS_CALL6(number, a, b, c, 0, 0, 0)
#define SYS_CALL2(number, a, b)       SYS_CALL6(number, a, b, 0, 0, 0, 0)
#define SYS_CALL1(number, a)          SYS_CALL6(number, a, 0, 0, 0, 0, 0)

long sys_open(const char *path, int flags, unsigned mode);
long sys_close(int fd);
long sys_read(int fd, void *out, size_t bytes);
long sys_write(int fd, const void *from, size_t bytes);
/* Entries of a directory, without . and .., up to the first one for which `stop` returns 1; NULL: all. Below 0 where
 * they cannot be read. */
int sys_entries(const char *path, int (*stop)(void *context, const char *name), void *context);
long sys_size(int fd, uint64_t *bytes);
/* The user that owns an open file, and the one that this process acts as. */
long sys_owner(int fd, uint32_t *user);
uint32_t sys_geteuid(void);
/* Of a thread, from its stat file in /proc: its state, as 'R' or 'S', and when it began, in hundredths of a second
 * since the system did. 0: that cannot be known. */
int sys_thread_stat(const char *path, char *state, uint64_t *start);
long sys_readlink(const char *path, char *out, size_t bytes);
long sys_truncate(int fd, uint64_t bytes);
/* Locks an open file for writing, for as long as anything keeps it open: a mapping does, too. */
long sys_lock_open_file(int fd);
long sys_getpid(void);
long sys_getppid(void);
long sys_gettid(void);
/* 1: a filter of system calls may punish those by which memory is taken and signals are blocked. Memory is then out. */
extern uint32_t sys_forbidden HIDDEN;
/* Keeps all signals from this thread, so that no handler can leave by longjmp what must be finished; and back.
 * Neither does anything where that is forbidden. */
uint64_t sys_block_signals(void);
void sys_restore_signals(uint64_t mask);
/* Soft limit of an RLIMIT_*; UINT64_MAX where there is none or it cannot be known. */
uint64_t sys_limit(int resource);
/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t sys_now_ns(void);
/* The same, as of the last tick of the kernel: 1 to 10 ms ago, and 5 ns to ask for. No system call where the kernel
 * has a vdso. */
static inline uint64_t sys_tick_ns(void) {
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC_COARSE, &now) != 0)
        return 0;
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Whether the process has one thread, as far as the C library was asked for others; 0 where it does not say. glibc's
 * since 2.32; weak, because a library that asked for it could not be loaded with another C library. */
extern char __libc_single_threaded __attribute__((weak));
static inline int sys_single_threaded(void) {
    return &__libc_single_threaded != NULL && __libc_single_threaded;
}

/* Soft limit RLIMIT_DATA as it was when it was first asked for, which is a system call; UINT64_MAX: none. */
uint64_t sys_data_limit(void);
/* Private zeroed memory, or NULL: also where all of it together would be more than an eighth of sys_data_limit(). */
void *sys_memory(size_t bytes);
void sys_memory_free(void *start, size_t bytes);
/*
 * Lists memory that was not made by sys_memory as the library's own. `flags`: MALLOW_OWN_SLOTS, or 0. Any thread, any
 * handler.
 */
void sys_own(const void *start, size_t bytes, uint32_t flags);
/* struct mallow_own: what is listed. */
extern struct mallow_own sys_own_list HIDDEN;
/* A shared mapping of a file's first bytes, or NULL. */
void *sys_map(int fd, size_t bytes, int writable);
void sys_unmap(void *start, size_t bytes);
/* Makes the pages of a shared mapping exist, so that writing to them cannot fail for want of space. 0 or -errno. */
long sys_populate(void *start, size_t bytes);
/* The pages read as zero in a child that fork or clone made. 0 or -errno. */
long sys_wipe_on_fork(void *start, size_t bytes);
void sys_keep_out_of_core(void *start, size_t bytes);
/* 1 when the 8 bytes at address can be read. */
int sys_readable(uint64_t address);

/* Sleeps while *word is expected, at most ms milliseconds: 1 when that time is over, 0 when it was woken or a signal
 * came. The word may be shared between processes. */
int sys_futex_wait(uint32_t *word, uint32_t expected, unsigned ms);
void sys_futex_wake(uint32_t *word);

/* Copies at most size - 1 bytes and ends with NUL; returns the bytes copied. */
size_t text_copy(char *to, const char *from, size_t size);
/* Writes value in decimal, returns the end. No NUL. */
char *text_decimal(char *to, uint64_t value);

#endif

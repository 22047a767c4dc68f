/* What depends on the processor: system calls and the registers an unwind starts with. x86-64 alone so far. */
#ifndef MALLOW_ARCH_H
#define MALLOW_ARCH_H

#include <linux/audit.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/auxv.h>

#if !defined(__x86_64__) || !defined(__linux__)
#error "libmallow supports Linux on x86-64; another system needs its own system calls, registers and unwind rules here"
#endif

/* A page of memory. Constant here; where it is not, as on aarch64, this is to be a variable: nothing but its largest
 * value, for what the compiler lays out, needs to be a constant. */
#define ARCH_PAGE      4096ull
#define ARCH_PAGE_MOST 4096

/* Linux x86-64 system call convention: number in rax, arguments in rdi rsi rdx r10 r8 r9; rcx and r11 are lost.
 * Returns the value or -errno. errno itself is never touched. */
static inline long arch_syscall(long number, long a, long b, long c, long d, long e, long f) {
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

/* Writes to the byte, and leaves it as it is, whoever else writes to it. */
static inline void arch_touch_for_write(void *byte) {
    __asm__ volatile("lock orb $0, %0" : "+m"(*(volatile uint8_t *)byte) : : "cc");
}

/* What __builtin_frame_address(0) points to in a function that keeps a frame pointer. */
struct arch_frame {
    uint64_t caller_fp;
    uint64_t return_address;
};

/* The callee-saved registers, rsp and rip, here and now, in the order of enum mallow_saved; rip is index 6, rsp 7. */
static inline void arch_registers(uint64_t out[8]) {
    __asm__ volatile("movq %%rbx, 0(%0)\n\t"
                     "movq %%rbp, 8(%0)\n\t"
                     "movq %%r12, 16(%0)\n\t"
                     "movq %%r13, 24(%0)\n\t"
                     "movq %%r14, 32(%0)\n\t"
                     "movq %%r15, 40(%0)\n\t"
                     "leaq 0(%%rip), %%rcx\n\t"
                     "movq %%rcx, 48(%0)\n\t"
                     "movq %%rsp, 56(%0)"
                     :
                     : "a"(out)
                     : "rcx", "memory");
}

/* The first address above what the main thread's stack can hold: the kernel puts the random bytes that AT_RANDOM
 * points to above everything on it. */
static inline uint64_t arch_main_stack_top(void) {
    return getauxval(AT_RANDOM) & ~7ull;
}

/* The kernel keeps at least this much room below it free of other mappings. */
#define ARCH_MAIN_STACK_ROOM (128ull << 20)

/* The top of the stack of the calling thread, another one: C libraries put a thread's control block on top of its
 * stack, also of one that the program made. */
static inline uint64_t arch_thread_stack_top(void) {
    return (uint64_t)pthread_self() & ~7ull;
}

/* The stack pointer below which the stack of the thread that exits is dead, `here` being a frame of a destructor
 * there: what runs below was called by exit, and all that is of the program's are words that frames of before have
 * left, as that of a main that has returned. What exit's caller had in registers is above. `here` where exit is not
 * found, or is not glibc's. Costs two look-ups of symbols; of a stack that is not the main thread's, a system call a
 * page. */
uint64_t arch_exit_frames_end(uint64_t here);

/* Whether an address is canonical and right behind a call instruction. Costs a system call. */
int arch_follows_call(uint64_t pc);

/* The quick rule of a return address in a whole function that consists of one call, as interpreters put one around each
 * function of a script (CPython's support for perf): its instructions are all there, so the rule is as certain as a
 * table's. RULE_UNKNOWN: other code. Costs a system call or two. */
uint32_t arch_trampoline(uint64_t pc);

/* As a filter of system calls sees this processor. */
#define ARCH_AUDIT AUDIT_ARCH_X86_64

/* Where a static probe is put in. */
#define ARCH_NOP "nop"

/* Asks for the cache line that a write is to go to, from the processor that has it. Where there is nothing at the
 * address, or the processor does not know the instruction, nothing happens. Not __builtin_prefetch, which without
 * -mprfchw asks for a copy to read, and the write asks again. */
static inline void arch_prefetch_to_write(const void *address) {
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)address));
}

static inline void arch_pause(void) {
    __builtin_ia32_pause();
}

/* Sets `offset` to where a thread-local variable lies among those of its module. */
#define ARCH_TLS_OFFSET(variable, offset) __asm__("movq $" #variable "@dtpoff, %0" : "=r"(offset))

#endif

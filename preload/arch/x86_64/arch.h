/* What depends on the processor: system calls and the registers an unwind starts with. x86-64 alone so far. */
#ifndef MALLOW_ARCH_H
#define MALLOW_ARCH_H

#include <stdint.h>

#if !defined(__x86_64__) || !defined(__linux__)
#error "libmallow supports Linux on x86-64; another system needs its own system calls, registers and unwind rules here"
#endif

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

/* What __builtin_frame_address(0) points to in a function that keeps a frame pointer. */
struct arch_frame {
    uint64_t caller_rbp;
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

/* Where a static probe is put in. */
#define ARCH_NOP "nop"

/* Asks for the cache line that a write is to go to, from the processor that has it. Where there is nothing at the address,
 * or the processor does not know the instruction, nothing happens. Not __builtin_prefetch, which without -mprfchw asks
 * for a copy to read, and the write asks again. */
static inline void arch_prefetch_to_write(const void *address) {
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)address));
}

static inline void arch_pause(void) {
    __builtin_ia32_pause();
}

#endif

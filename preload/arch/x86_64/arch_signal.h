/* What a signal handler knows of the thread that it interrupted: its registers as the kernel saved them, its signal
 * mask of 64 bits, and how a page fault accessed memory: bit 1 of the error code is a write, bit 4 an instruction
 * (Intel SDM, volume 3, 4.7). */
#ifndef MALLOW_ARCH_SIGNAL_H
#define MALLOW_ARCH_SIGNAL_H
#include <ucontext.h>
#define ARCH_INTERRUPTED_REGISTERS(context) (((ucontext_t *)(context))->uc_mcontext.gregs)
#define ARCH_INTERRUPTED_MASK(context)      (&((ucontext_t *)(context))->uc_sigmask)
#define ARCH_FAULT_IS_WRITE(context)        (ARCH_INTERRUPTED_REGISTERS(context)[REG_ERR] >> 1 & 1)
/* 1 a read, 2 a write, 3 an instruction; 0: no page fault. Trap 14, bits 1 and 4 of its error code. */
#define ARCH_FAULT_ACCESS(context)                                                                                     \
    (ARCH_INTERRUPTED_REGISTERS(context)[REG_TRAPNO] != 14          ? 0u                                               \
     : (ARCH_INTERRUPTED_REGISTERS(context)[REG_ERR] >> 4 & 1) != 0 ? 3u                                               \
                                                                    : 1u + (uint32_t)ARCH_FAULT_IS_WRITE(context))
#endif

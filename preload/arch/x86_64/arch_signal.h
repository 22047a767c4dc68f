/* What a signal handler knows of the thread that it interrupted: its registers as the kernel saved them, its signal mask of 64 bits, and
 * whether a page fault was a write: bit 1 of the error code (Intel SDM, volume 3, 4.7). */
#ifndef MALLOW_ARCH_SIGNAL_H
#define MALLOW_ARCH_SIGNAL_H
#include <ucontext.h>
#define ARCH_INTERRUPTED_REGISTERS(context) (((ucontext_t *)(context))->uc_mcontext.gregs)
#define ARCH_INTERRUPTED_MASK(context)      (&((ucontext_t *)(context))->uc_sigmask)
#define ARCH_FAULT_IS_WRITE(context)        (ARCH_INTERRUPTED_REGISTERS(context)[REG_ERR] >> 1 & 1)
#endif

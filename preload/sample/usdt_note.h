/*
 * Static probes for perf, bpftrace and others: notes that say where a probe is and where its arguments are, as
 * SystemTap defined them ("UserSpaceProbeImplementation"). A probe is one `nop` behind a test of its semaphore, which
 * the kernel counts up while somebody listens; nothing is computed for it before.
 *
 * PROBE_DEFINE(provider, name) once, outside of functions; PROBE_IS_ON(provider, name); PROBEn(provider, name, …) with
 * n arguments of 64 bits, where it is on.
 */
#ifndef MALLOW_USDT_NOTE_H
#define MALLOW_USDT_NOTE_H

#include "arch.h"
#include "base/sys.h"

#define PROBE_DEFINE(provider, name)                                                                                   \
    __attribute__((section(".probes"), used)) volatile unsigned short provider##_##name##_semaphore HIDDEN

/* For other files than the one that defines it. */
#define PROBE_DECLARE(provider, name) extern volatile unsigned short provider##_##name##_semaphore HIDDEN

#define PROBE_IS_ON(provider, name) UNLIKELY(provider##_##name##_semaphore != 0)

/* The note: name and type; where the probe, the base and the semaphore are; provider, name and arguments as text. A
 * linker or a prelinker that moves the base shows by it how far the probe moved. */
#define PROBE_NOTE(provider, name, arguments)                                                                          \
    "990: " ARCH_NOP "\n"                                                                                              \
    ".pushsection .note.stapsdt, \"\", \"note\"\n"                                                                     \
    ".balign 4\n"                                                                                                      \
    ".4byte 992f - 991f, 994f - 993f, 3\n"                                                                             \
    "991: .asciz \"stapsdt\"\n"                                                                                        \
    "992: .balign 4\n"                                                                                                 \
    "993: .8byte 990b, _.stapsdt.base, " #provider "_" #name "_semaphore\n"                                            \
    ".asciz \"" #provider "\"\n"                                                                                       \
    ".asciz \"" #name "\"\n"                                                                                           \
    ".asciz \"" arguments "\"\n"                                                                                       \
    "994: .balign 4\n"                                                                                                 \
    ".popsection\n"                                                                                                    \
    ".ifndef _.stapsdt.base\n"                                                                                         \
    ".pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n"                                        \
    ".weak _.stapsdt.base\n"                                                                                           \
    ".hidden _.stapsdt.base\n"                                                                                         \
    "_.stapsdt.base: .space 1\n"                                                                                       \
    ".size _.stapsdt.base, 1\n"                                                                                        \
    ".popsection\n"                                                                                                    \
    ".endif\n"

#define PROBE_IN(x) "or"((uint64_t)(x))

#define PROBE1(p, n, a)    __asm__ volatile(PROBE_NOTE(p, n, "8@%0")::PROBE_IN(a))
#define PROBE2(p, n, a, b) __asm__ volatile(PROBE_NOTE(p, n, "8@%0 8@%1")::PROBE_IN(a), PROBE_IN(b))
#define PROBE3(p, n, a, b, c)                                                                                          \
    __asm__ volatile(PROBE_NOTE(p, n, "8@%0 8@%1 8@%2")::PROBE_IN(a), PROBE_IN(b), PROBE_IN(c))
#define PROBE4(p, n, a, b, c, d)                                                                                       \
    __asm__ volatile(PROBE_NOTE(p, n, "8@%0 8@%1 8@%2 8@%3")::PROBE_IN(a), PROBE_IN(b), PROBE_IN(c), PROBE_IN(d))
#define PROBE5(p, n, a, b, c, d, e)                                                                                    \
    __asm__ volatile(PROBE_NOTE(p, n, "8@%0 8@%1 8@%2 8@%3 8@%4")::PROBE_IN(a), PROBE_IN(b), PROBE_IN(c), PROBE_IN(d), \
                     PROBE_IN(e))
#define PROBE6(p, n, a, b, c, d, e, f)                                                                                 \
    __asm__ volatile(PROBE_NOTE(p, n, "8@%0 8@%1 8@%2 8@%3 8@%4 8@%5")::PROBE_IN(a), PROBE_IN(b), PROBE_IN(c),         \
                     PROBE_IN(d), PROBE_IN(e), PROBE_IN(f))

#endif

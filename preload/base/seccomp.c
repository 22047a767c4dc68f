/* An interpreter of the classic BPF that filters of system calls are made of. */
#include "base/seccomp.h"

#include <string.h>

/* Filters of libseccomp, of browsers and of servers are made of these instructions. */
uint32_t seccomp_action(const struct sock_fprog *filter, const struct seccomp_data *call) {
    uint32_t a = 0;
    /* Wide, so that no jump leads back, not in a filter either that the kernel will refuse. */
    for (uint64_t at = 0; at < filter->len; at++) {
        const struct sock_filter *i = &filter->filter[at];
        switch (i->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            if (i->k > sizeof *call - sizeof a)
                return SECCOMP_RET_KILL_PROCESS;
            memcpy(&a, (const char *)call + i->k, sizeof a);
            break;
        case BPF_LD | BPF_IMM:
            a = i->k;
            break;
        case BPF_ALU | BPF_AND | BPF_K:
            a &= i->k;
            break;
        case BPF_JMP | BPF_JA:
            at += i->k;
            break;
        case BPF_JMP | BPF_JEQ | BPF_K:
            at += a == i->k ? i->jt : i->jf;
            break;
        case BPF_JMP | BPF_JGT | BPF_K:
            at += a > i->k ? i->jt : i->jf;
            break;
        case BPF_JMP | BPF_JGE | BPF_K:
            at += a >= i->k ? i->jt : i->jf;
            break;
        case BPF_JMP | BPF_JSET | BPF_K:
            at += (a & i->k) != 0 ? i->jt : i->jf;
            break;
        case BPF_RET | BPF_K:
            return i->k & SECCOMP_RET_ACTION_FULL;
        default:
            return SECCOMP_RET_KILL_PROCESS;
        }
    }
    return SECCOMP_RET_KILL_PROCESS;
}

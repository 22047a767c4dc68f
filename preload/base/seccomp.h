/* What a filter of system calls (seccomp) says of a call. */
#ifndef MALLOW_SECCOMP_H
#define MALLOW_SECCOMP_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdint.h>

/* SECCOMP_RET_* without data. A filter that the kernel would refuse, or with instructions that are not known here,
 * counts as one that kills. */
uint32_t seccomp_action(const struct sock_fprog *filter, const struct seccomp_data *call);

#endif

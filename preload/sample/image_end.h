/* How a sampled image ends. What it says of that is for whoever looks at it later: a crash says nothing. */
#ifndef MALLOW_IMAGE_END_H
#define MALLOW_IMAGE_END_H

#include "base/sys.h"
#include "base/wire.h"

/* Once, where allocations are sampled. Marks the image that this one replaced: that one could not know that its exec
 * would succeed, and a program may exec by a system call, past the wrapped functions. */
void image_end_watch(void);
/* The image ends by _exit or exit_group, as far as the caller knows: a child of vfork has its parent's memory. */
void image_end_now(void);

#endif

/*
 * A process that mallow attached to: docs/design/attach.md. The library was loaded by dlopen with RTLD_LOCAL, so nobody
 * calls its exported functions by their names: patched entries lead to the replacements of attach/attachment.c.
 */
#ifndef MALLOW_ATTACHMENT_H
#define MALLOW_ATTACHMENT_H

#include "base/sys.h"
#include "base/wire_attachment.h"

/* Mallow finds it by this name. */
extern struct mallow_attachment mallow_attachment;

static inline int attachment_is_late(void) {
    return mallow_attachment.late != 0;
}

#endif

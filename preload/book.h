/*
 * What sampling tells mallow: the process file's live samples, ends of samples, and stacks. preload/wire.h draws them.
 *
 * Call with sample_lock held, but for book_layout. Where there is no file, or no room in it, all of this does nothing but
 * count.
 */
#ifndef MALLOW_BOOK_H
#define MALLOW_BOOK_H

#include "slots.h"
#include "unwind.h"

/* Lays out what follows `start` in a process file of at most `most` bytes. 0: it does not fit. */
uint64_t book_layout(struct mallow_sampling *sampling, uint64_t start, uint64_t most);

/* The process file is there: begins its book. A forked child's begins with what its parent's had. */
void book_open(void);
/* In a forked child: nothing may be written to its parent's. */
void book_forget(void);

/* The number of the stack that was walked; 0: it finds no room. */
uint32_t book_stack(const struct unwinder *unwinder, uint32_t generation);

/* A sample began, whose slot is filled in but for `sequence`. */
void book_begin(struct slot *slot);
/* It ended. */
void book_end(struct slot *slot, uint64_t now_ns, uint32_t tid, uint32_t stack, uint32_t kind, const void *moved_to);

/* Numbers of the file, NULL before there is one. */
extern struct mallow_sampling *book HIDDEN;

int book_makes_room(uint32_t index);
/* 0: there is no room for the entry of a slot. Others may be written then. */
static inline int book_has_room(const struct slot *slot) {
    return LIKELY(book != NULL) && (LIKELY(slot_index(slot) < book->slots) || book_makes_room(slot_index(slot)));
}

#endif

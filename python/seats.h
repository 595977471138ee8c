/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A context of liblodic belongs to one thread, and Python does not tell an extension when a thread
 * ends. So each thread has a list of its contexts, which the C library ends with the thread.
 *
 *   attachment A --> seat of thread 1 --> seat of thread 2
 *                        ^                    ^
 *   thread 1 ------------+--> seat of B       +------------ thread 2
 *
 * A seat is in two lists, and one lock guards all of them. It leaves both when its thread ends, or
 * when its attachment does. No thread reads by an attachment that ends, because a read holds a
 * reference to it.
 */
#ifndef LODIC_PYTHON_SEATS_H
#define LODIC_PYTHON_SEATS_H

#include <lodic/lodic.h>

struct seat;

struct seats {
	struct seat *first;
};

/* Once, before the others; 0 or a negative errno. */
int seats_begin(void);
/* This thread's context of that attachment, made if there is none; else as
 * lodic_context_open(). */
int seats_context(struct seats *seats, struct lodic *lodic,
                  struct lodic_context **ret_context);
/* Closes all contexts of an attachment that no thread uses. */
void seats_end(struct seats *seats);

#endif

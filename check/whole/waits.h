/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What must not wait: a turn of the service, and a read. The door says of each call if it may. And
 * how many calls a turn makes.
 */
#ifndef LODIC_CHECK_WHOLE_WAITS_H
#define LODIC_CHECK_WHOLE_WAITS_H

#include "check/whole/world.h"

/* Before anybody runs. */
void waits_begin(void);
/* In this scenario a turn makes that call so often at most. */
void waits_turn_most(enum call call, u32 most);
/* The running thread is a service's main one, which serves from now on. */
void waits_turns_begin(void);
/* It serves no more, and may wait; but not for the close of a file that has a server. */
void waits_turns_end(void);
/* It reads: it asks for the file that it reads, and waits for nobody else. */
void waits_read_begin(void);
void waits_read_end(void);
/* A program with the shim reads: the shim looks at the file, and at its own descriptors. It takes
 * locks that are free. One read
 * of a file sleeps for the service's answer, for a time that is bounded (preload/run_await.c). */
void waits_guest_begin(void);
void waits_guest_end(void);

#endif

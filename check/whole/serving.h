/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Which services serve, and whether programs can find them.
 *
 * Of all services at WORLD_SOCKET one serves. Two do for a moment, if a successor has taken
 * the place and the one before has not heard of it yet. The path of the socket leads to the
 * one that serves, and so does the path of its lock.
 */
#ifndef LODIC_CHECK_WHOLE_SERVING_H
#define LODIC_CHECK_WHOLE_SERVING_H

#include "check/whole/world.h"

#define SERVING_LOCK WORLD_SOCKET ".lock"

/* Before anybody runs. */
void serving_begin(void);
/* Programs can connect to the running service from now on. */
void serving_starts(void);
/* It has socket and lock of another one. */
void serving_takes(void);
/* It has handed over; or it ends, and nobody goes on. */
void serving_stops(void);
void serving_stops_for_good(void);
/* It could not begin, or not take over. */
void serving_fails(int err);
/* It serves, and lives. It may be stopped. */
bool serving_is(const struct process *process);
/* The last one that has begun to. NULL: none does. */
struct process *serving_now(void);
/* Nothing disturbs services but for what is said here: somebody has stopped one for long, or ended
 * one. What is expected of takeovers under way is forgotten. */
void serving_disturbed(void);
/* It may have lost its place before it takes it. */
void serving_was_silent(const struct process *successor);
/* A program that looks at the rules above from time to time, until faults have ended. */
void serving_judge(void);

#endif

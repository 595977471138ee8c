/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Errors that carry their reason: include/lodic/reason.h lists the reasons.
 *
 * RE1 an error of the service's functions is -errno, or reason_encode(): the errno in its low 12
 *     bits and the reason above. It travels so in wire_reply.error, and in look_file.reason.
 *     A function that compares such an error with an errno takes reason_error() first.
 * RE2 what reaches a program is a plain -errno. The library keeps the reason beside it, for the
 *     thread that gets the error (lib/client/error.h).
 */
#ifndef LODIC_LIB_REASON_H
#define LODIC_LIB_REASON_H

#include <stdbool.h>

#include "lodic/reason.h"

#define NR_REASONS ((unsigned int)LODIC_REASON_HOLD_ORPHAN + 1) /* the last one */
#define REASON_SHIFT 12 /* Linux's errno values are below 4096 */
#define REASON_ERRNO_MASK ((1 << REASON_SHIFT) - 1)

/* The reason with its own errno; not for a reason that any errno may have. */
int reason_encode(enum lodic_reason reason);

/* The two halves. 0 has no reason. */
static inline int reason_error(int error)
{
	return -(int)((0u - (unsigned int)error) & REASON_ERRNO_MASK);
}

static inline enum lodic_reason reason_of(int error)
{
	return (enum lodic_reason)((0u - (unsigned int)error) >> REASON_SHIFT);
}

/* The same with another errno: why a file is not cached, where -ESTALE says that it is not. */
static inline int reason_join(enum lodic_reason reason, int error)
{
	return -(-error | (int)reason << REASON_SHIFT);
}

/* Is it an error, with a reason or without, or 0? What a peer sends may be anything. */
bool reason_is_error(int error);

/* What an errno always means; LODIC_REASON_NONE: it may mean several things, or nothing here. */
enum lodic_reason reason_usual(int error);

/* The error's own reason, else the usual one. */
enum lodic_reason reason_find(int error);

/* The text and the name of lodic/reason.h. */
const char *reason_text(enum lodic_reason reason);
const char *reason_name(enum lodic_reason reason);

/* The name of the error's own reason, else of the usual one. */
const char *reason_name_of(int error);
/* In words: the error's own reason, else the usual one, else what strerror(3) says. */
const char *reason_words(int error);

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Which messages of lib/wire.h were sent, and what has befallen them: the second half of the table
 * of coverage. A kind is a request, or the answer to it.
 */
#include <string.h>

#include "check/whole/search.h"
#include "lib/wire.h"

/* A kind that was taken more often has met each fate. Few are killed in the one call that matters:
 * of 88,000 senders of FILE_CLOSE six were. */
#define SELDOM 100000u

static const char *const names[WIRE_NR_OPS] = {
	[WIRE_HELLO] = "HELLO",
	[WIRE_CONTEXT_OPEN] = "CONTEXT_OPEN",
	[WIRE_CONTEXT_CLOSE] = "CONTEXT_CLOSE",
	[WIRE_FILE_OPEN] = "FILE_OPEN",
	[WIRE_FILE_CLOSE] = "FILE_CLOSE",
	[WIRE_SYNC] = "SYNC",
	[WIRE_STAT] = "STAT",
	[WIRE_FILES] = "FILES",
	[WIRE_READERS] = "READERS",
	[WIRE_CONTEXTS] = "CONTEXTS",
	[WIRE_DROP] = "DROP",
	[WIRE_HOLD] = "HOLD",
	[WIRE_HOLD_FD] = "HOLD_FD",
	[WIRE_HOLD_WAIT] = "HOLD_WAIT",
	[WIRE_HOLDS] = "HOLDS",
	[WIRE_RESIZE] = "RESIZE",
	[WIRE_HAND_FILE] = "HAND_FILE",
	[WIRE_HAND_FRAMES] = "HAND_FRAMES",
	[WIRE_HAND_OVER] = "HAND_OVER",
	[WIRE_HANDED] = "HANDED",
	[WIRE_TIMES] = "TIMES",
	[WIRE_TIERS] = "TIERS",
	[WIRE_MOVE] = "MOVE",
	[WIRE_SUCCEED] = "SUCCEED",
	[WIRE_HAND_ARENA] = "HAND_ARENA",
	[WIRE_HAND_STAY] = "HAND_STAY",
	[WIRE_KEEP] = "KEEP",
	[WIRE_STOP] = "STOP",
};

_Static_assert(2 * WIRE_NR_OPS <= MESSAGE_MOST_KINDS, "room for each request and answer");

static bool is_good_answer(const struct wire_reply *reply, size_t nr_bytes)
{
	return nr_bytes >= sizeof(*reply) && reply->error <= 0 &&
	       reply->nr_fds <= WIRE_MAX_FDS;
}

/* A request of another version, or one that is cut, still says what it would be. */
static struct message_name name_of(const void *bytes, size_t nr_bytes, u32 owed)
{
	struct wire_request request;
	struct message_name name = { 0, false, false };

	if (nr_bytes == sizeof(request) || (owed == 0 && nr_bytes < sizeof(request))) {
		memset(&request, 0, sizeof(request));
		memcpy(&request, bytes, nr_bytes);
		if (request.op == 0 || request.op >= WIRE_NR_OPS)
			return name;
		name.kind = request.op;
		name.is_request = true;
		name.is_bad = nr_bytes < sizeof(request) ||
		              request.version != WIRE_VERSION;
	} else if (owed != 0) {
		name.kind = WIRE_NR_OPS + owed;
		name.is_bad = !is_good_answer(bytes, nr_bytes);
	}
	return name;
}

void messages_begin(void)
{
	message_name = name_of;
}

static bool has_fds(u32 kind)
{
	switch (kind) {
	case WIRE_FILE_OPEN:
	case WIRE_SUCCEED:
	case WIRE_NR_OPS + WIRE_HELLO:
	case WIRE_NR_OPS + WIRE_CONTEXT_OPEN:
	case WIRE_NR_OPS + WIRE_HOLD:
	case WIRE_NR_OPS + WIRE_HOLD_FD:
	case WIRE_NR_OPS + WIRE_SUCCEED:
	case WIRE_NR_OPS + WIRE_HAND_ARENA:
	case WIRE_NR_OPS + WIRE_HAND_FILE:
	case WIRE_NR_OPS + WIRE_HAND_OVER: return true;
	default: return false;
	}
}

static const char *reason_of(const struct tally *all, u32 kind, enum message_fate fate)
{
	if (kind % WIRE_NR_OPS == WIRE_STOP)
		return "few programs end a service by a message";
	if (fate == MESSAGE_BAD && kind > WIRE_NR_OPS)
		return "a false service seldom comes so far";
	if (fate == MESSAGE_FULL)
		return "strangers alone send more than they take answers for";
	if (fate == MESSAGE_FDS_LOST && !has_fds(kind))
		return "it brings none";
	if (all->nr_messages[kind][MESSAGE_TAKEN] < SELDOM)
		return "the message is rare";
	return NULL;
}

static u32 print_kind(const struct tally *all, u32 kind, FILE *to)
{
	u32 nr_empty = 0;

	for (u32 i = 0; i < NR_MESSAGE_FATES; i++) {
		u64 nr = all->nr_messages[kind][i];
		const char *why = nr > 0 ? NULL : reason_of(all, kind, i);

		fprintf(to, "%-14s %-7s %-18s %10llu%s%s\n", names[kind % WIRE_NR_OPS],
		        kind < WIRE_NR_OPS ? "" : "answer", message_fates[i],
		        (unsigned long long)nr, nr > 0 ? "" : "  ",
		        nr > 0 ? "" : why ? why : "AND THERE IS NO REASON");
		nr_empty += nr == 0 && !why;
	}
	return nr_empty;
}

u32 messages_print(const struct tally *all, FILE *to)
{
	u32 nr_empty = 0;

	for (u32 op = 1; op < WIRE_NR_OPS; op++) {
		nr_empty += print_kind(all, op, to);
		nr_empty += print_kind(all, WIRE_NR_OPS + op, to);
	}
	return nr_empty;
}

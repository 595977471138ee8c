/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See messages.h. Nothing here changes a run. */
#include "host/whole/messages.h"

#include <string.h>

#include "host/whole/machine.h"

#define LATE_NS ((u64)1000000000)

const char *const message_fates[NR_MESSAGE_FATES] = {
	[MESSAGE_TAKEN] = "taken",
	[MESSAGE_SENDER_FIRST] = "sender dies first",
	[MESSAGE_SENDER_AFTER] = "sender dies then",
	[MESSAGE_TAKER_FIRST] = "taker dies first",
	[MESSAGE_TAKER_AFTER] = "taker dies then",
	[MESSAGE_LOST_PEER] = "peer has gone",
	[MESSAGE_FULL] = "no room",
	[MESSAGE_LATE] = "late",
	[MESSAGE_GIVEN_UP] = "given up",
	[MESSAGE_FDS_LOST] = "descriptors lost",
	[MESSAGE_BAD] = "short or rubbish",
};

struct message_name (*message_name)(const void *bytes, size_t nr_bytes, u32 owed);

struct message_name messages_name(const struct messages *m, const void *bytes,
                                  size_t nr_bytes)
{
	if (!message_name)
		return (struct message_name){ 0, false, false };
	return message_name(bytes, nr_bytes, m->nr_owed > 0 ? m->owed[0] : 0);
}

void messages_fate(u32 kind, enum message_fate fate)
{
	machine.nr_messages[kind][fate]++;
}

void messages_sent(struct messages *m, const struct message_name *name)
{
	m->answer = 0;
	if (name->is_bad)
		messages_fate(name->kind, MESSAGE_BAD);
	if (name->is_request || m->nr_owed == 0)
		return;
	m->nr_owed--;
	memmove(m->owed, m->owed + 1, m->nr_owed * sizeof(m->owed[0]));
}

void messages_taken(struct messages *m, const struct message_name *name, u64 waited_ns)
{
	messages_fate(name->kind, waited_ns > LATE_NS ? MESSAGE_LATE : MESSAGE_TAKEN);
	if (!name->is_request)
		m->answer = name->kind;
	else if (m->nr_owed < MESSAGE_MOST_OWED)
		m->owed[m->nr_owed++] = name->kind;
}

void messages_owed_fate(const struct messages *m, enum message_fate fate)
{
	for (u32 i = 0; i < m->nr_owed; i++)
		messages_fate(m->owed[i], fate);
}

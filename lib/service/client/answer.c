/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: answer.h. Only the main thread comes here. */
#include <errno.h>

#include "lib/reason.h"
#include "lib/service/client/answer.h"
#include "lib/service/client/client.h"
#include "lib/service/client/stat.h"
#include "lib/service/file/files.h"
#include "lib/service/frame/fill.h"
#include "lib/service/hold/hold_table.h"
#include "lib/service/hold/holds.h"
#include "lib/service/client/state.h"
#include "lib/wire.h"

/* How many it tells that a hold is settled: 4 us each. */
#define ANSWERS_PER_TURN 64u

int answer_error(struct clients *s, int error)
{
	int plain = reason_error(error);

	if (plain == -EMFILE || plain == -ENFILE) {
		files_spare_descriptors(s->files);
		holds_spare_descriptors(s->holding);
	}
	if (reason_of(error) != LODIC_REASON_NONE)
		return error;
	switch (plain) {
	case -EMFILE:
	case -ENFILE: return reason_join(LODIC_REASON_DESCRIPTORS, plain);
	case -ENOMEM: return reason_join(LODIC_REASON_SERVICE_MEMORY, plain);
	default: return plain;
	}
}

/* The client's request is done. */
static void answer_send(struct clients *s, struct client *c, int error, bool with_stat)
{
	struct wire_reply reply = { .error = answer_error(s, error) };

	if (with_stat)
		stat_collect(s, &reply.stat);
	if (wire_send(c->socket, &reply, sizeof(reply), NULL, 0) != 0)
		client_hang_up(s, c);
}

bool answer_waiting(struct clients *s)
{
	u64 oldest = 0; /* not looked for yet */
	struct hold_waiter *waiter;
	u32 left = ANSWERS_PER_TURN;
	bool work;

	while (left > 0 && (waiter = hold_table_settled(s->holding)) != NULL) {
		answer_send(s, waiter->client, waiter->error, false);
		left--;
	}
	work = left == 0;
	if (s->nr_waiting == 0)
		return work;
	for (struct client *c = s->first; c; c = c->next) {
		if (c->stat_wanted && stat_is_done(s, c->stat_wanted)) {
			s->nr_waiting--;
			c->stat_wanted = 0;
			answer_send(s, c, 0, true);
		}
		if (!c->waits)
			continue;
		oldest = oldest ? oldest : fill_oldest(s->frames);
		if (fill_sync_is_done(s->frames, &c->sync, oldest)) {
			s->nr_waiting--;
			c->waits = false;
			answer_send(s, c, 0, false);
		}
		work |= c->waits && c->sync.round > 0;
	}
	return work;
}

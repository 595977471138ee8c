/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: answer.h. Only the main thread comes here. */
#include "lib/service/answer.h"
#include "lib/service/client.h"
#include "lib/service/fill.h"
#include "lib/service/hold_table.h"
#include "lib/service/stat.h"
#include "lib/wire.h"

/* How many it tells that a hold is settled: 4 us each. */
#define ANSWERS_PER_TURN 64u

/* The client's request is done. */
static void answer_send(struct service *s, struct client *c, int error, bool with_stat)
{
	struct wire_reply reply = { .error = error };

	if (with_stat)
		stat_collect(s, &reply.stat);
	if (wire_send(c->socket, &reply, sizeof(reply), NULL, 0) != 0)
		client_hang_up(s, c);
}

bool answer_waiting(struct service *s)
{
	u64 oldest = 0; /* not looked for yet */
	struct hold_waiter *waiter;
	u32 left = ANSWERS_PER_TURN;
	bool work;

	while (left > 0 && (waiter = hold_table_settled(s)) != NULL) {
		answer_send(s, waiter->client, waiter->error, false);
		left--;
	}
	work = left == 0;
	if (s->nr_waiting == 0)
		return work;
	for (struct client *c = s->clients; c; c = c->next) {
		if (c->stat_wanted && stat_is_done(s, c->stat_wanted)) {
			s->nr_waiting--;
			c->stat_wanted = 0;
			answer_send(s, c, 0, true);
		}
		if (!c->waits)
			continue;
		oldest = oldest ? oldest : fill_oldest(s);
		if (fill_sync_is_done(s, &c->sync, oldest)) {
			s->nr_waiting--;
			c->waits = false;
			answer_send(s, c, 0, false);
		}
		work |= c->waits && c->sync.round > 0;
	}
	return work;
}

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * See reread.h. The files may lie on a server that does not answer: a user's home often does. So
 * a worker reads them. Only one does at a time: what is read is one thing, and told once. A SIGHUP
 * that comes meanwhile may be for a later change, so they are read once more after that.
 *
 * A resize may be under way when the answer comes, or a successor may have the socket. What was
 * read counts as told, so another SIGHUP finds nothing new. So the new size waits for the end of
 * that, or for a newer one.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/service/base/worker.h"
#include "lib/service/succession/hand.h"
#include "lib/service/succession/reread.h"
#include "lib/service/succession/resize.h"
#include "lib/service/succession/whole.h"

struct reread_job {
	struct worker_job job;
	void (*read)(void *arg);
	void *arg;
};

static void reread_say(const struct service *s, const char *why)
{
	service_say(&s->base, SERVICE_WARNING, "resize_failed",
	            "the cache keeps its size: %s", why);
}

static void reread_work(struct worker_job *job)
{
	struct reread_job *r = (struct reread_job *)job;

	r->read(r->arg);
}

static void reread_done(void *owner, struct worker_job *job)
{
	struct service *s = owner;
	u64 bytes = s->base.options.reread_done(s->base.options.say_arg);

	s->change.rereads = false;
	if (bytes > 0) /* else the one that waits, if there is one, is still wanted */
		s->change.reread_bytes = bytes;
	free(job);
	if (s->change.rereads_again &&
	    worker_any(&s->base)) /* without workers the service ends */
		reread_begin(s);
	reread_tick(s);
}

void reread_begin(struct service *s)
{
	struct reread_job *r;
	int err;

	if (!s->base.options.reread)
		return;
	if (s->change.rereads) {
		service_say(
			&s->base, SERVICE_INFO, "settings",
			"the configuration is still being read, and will be read again");
		s->change.rereads_again = true;
		return;
	}
	r = malloc(sizeof(*r));
	if (!r) {
		reread_say(s, strerror(ENOMEM));
		return;
	}
	*r = (struct reread_job){ .job = { .work = reread_work,
		                           .done = reread_done,
		                           .owner = OWNER_SERVICE },
		                  .read = s->base.options.reread,
		                  .arg = s->base.options.say_arg };
	err = worker_do(&s->base, &r->job);
	s->change.rereads = err == 0;
	s->change.rereads_again = false;
	if (err) {
		free(r);
		reread_say(s, strerror(-err));
	}
}

void reread_tick(struct service *s)
{
	int err;

	if (s->change.reread_bytes == 0 || s->change.resize || !worker_any(&s->base) ||
	    !hand_gives_way(s))
		return;
	err = resize_ask(s, s->change.reread_bytes);
	s->change.reread_bytes = 0;
	if (err)
		reread_say(s, strerror(-err));
}

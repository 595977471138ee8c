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
#include <errno.h>
#include <string.h>

#include "lib/port.h"
#include "lib/service/base/worker.h"
#include "lib/service/succession/hand.h"
#include "lib/service/succession/reread.h"
#include "lib/service/succession/resize.h"

struct reread_job {
	struct worker_job job;
	void (*read)(void *arg);
	void *arg;
};

static void reread_say(const struct reread *r, const char *why)
{
	service_say(r->base, SERVICE_WARNING, "resize_failed",
	            "the cache keeps its size: %s", why);
}

static void reread_work(struct worker_job *job)
{
	struct reread_job *j = (struct reread_job *)job;

	j->read(j->arg);
}

static void reread_done(void *owner, struct worker_job *job)
{
	struct reread *r = owner;
	u64 bytes = r->events->reread_done(r->events->say_arg);

	r->runs = false;
	if (bytes > 0) /* else the one that waits, if there is one, is still wanted */
		r->bytes = bytes;
	port_free(job);
	if (r->runs_again && worker_any(r->base)) /* without workers the service ends */
		reread_begin(r);
	reread_tick(r);
}

void reread_begin(struct reread *r)
{
	struct reread_job *j;

	if (!r->events->reread)
		return;
	if (r->runs) {
		service_say(
			r->base, SERVICE_INFO, "settings",
			"the configuration is still being read, and will be read again");
		r->runs_again = true;
		return;
	}
	j = port_alloc(sizeof(*j));
	if (!j) {
		reread_say(r, strerror(ENOMEM));
		return;
	}
	*j = (struct reread_job){ .read = r->events->reread, .arg = r->events->say_arg };
	worker_job_init(&j->job, WORKER_ANY, 0, OWNER_REREAD, reread_work, reread_done);
	worker_do(r->base, &j->job); /* it is for no program, so it is accepted */
	r->runs = true;
	r->runs_again = false;
}

bool reread_is_due(const struct reread *r)
{
	return r->bytes > 0;
}

void reread_tick(struct reread *r)
{
	int err;

	if (r->bytes == 0 || resize_is_under_way(r->of) || !worker_any(r->base) ||
	    !hand_gives_way(r->of))
		return;
	err = resize_ask(r->of, r->bytes);
	r->bytes = 0;
	if (err)
		reread_say(r, strerror(-err));
}

void reread_take_over(struct reread *r, const struct reread *old)
{
	r->runs = old->runs;
	r->runs_again = old->runs_again;
	r->bytes = old->bytes;
}

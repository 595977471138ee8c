/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A file that a client opens: a worker looks at it, and the main thread admits it. */
#include <errno.h>

#include "lib/reason.h"
#include "lib/service/client/domain.h"
#include "lib/service/base/worker.h"
#include "lib/service/client/answer.h"
#include "lib/service/client/client.h"
#include "lib/service/client/opening.h"
#include "lib/service/file/files.h"
#include "lib/service/frame/fill.h"
#include "lib/service/client/state.h"
#include "lib/wire.h"
#include "lib/service/base/base.h"
#include "lib/service/file/held.h"
#include "lib/service/file/opens.h"
#include "lib/service/file/proof.h"

/* A file that a client wants to open, while a worker looks at it. */
struct opening {
	struct worker_job job;
	struct client *client; /* the main thread's; NULL: it has hung up meanwhile */
	struct service_options options; /* the service may be replaced meanwhile */
	int passed;
	u64 cpu, missed, nr_missed; /* as the request has them */
	struct passed_file file;
};

void opening_forget(struct client *c)
{
	if (c->opening)
		c->opening->client = NULL;
	c->opening = NULL;
}

static void opening_work(struct worker_job *job)
{
	struct opening *o = (struct opening *)job;

	proof_look(&o->options, &o->passed, &o->file);
}

/* The client's open count, and what it needs to know. */
static int opening_admit(struct clients *s, struct client *c, struct passed_file *p,
                         u64 cpu, struct wire_reply *reply)
{
	struct file_facts facts;
	u32 slot;
	int err = files_open(s->files, p, cpu, &slot);

	if (err)
		return err;
	facts = held_facts(files_at(s->files, slot));
	err = c ? opens_add(&c->opens, s->shape->nr_files, slot, facts.id) : -ECANCELED;
	if (err) {
		files_close(s->files, slot, facts.id, 1);
		return err;
	}
	reply->file.slot = slot;
	reply->file.id = facts.id;
	reply->file.size = facts.size;
	reply->file.dev = facts.dev;
	reply->file.ino = facts.ino;
	return 0;
}

static void opening_done(void *owner, struct worker_job *job)
{
	struct clients *s = owner;
	struct opening *o = (struct opening *)job;
	struct client *c = o->client;
	struct wire_reply reply = { 0 };

	if (worker_was_refused(&o->job))
		proof_refuse(&o->file, o->passed, -EBUSY);
	if (o->passed >= 0)
		worker_close(s->base, o->passed);
	reply.error = answer_error(s, opening_admit(s, c, &o->file, o->cpu, &reply));
	if (!reply.error)
		fill_want(s->frames, (u32)reply.file.id, o->missed, o->nr_missed);
	port_free(o);
	if (!c)
		return;
	c->opening = NULL;
	if (service_watch_again(s->base, c->socket, PORT_INPUT, &c->socket_source) !=
	            0 ||
	    wire_send(c->socket, &reply, sizeof(reply), NULL, 0) != 0)
		client_hang_up(s, c);
}

int opening_begin(struct clients *s, struct client *c, struct exchange *x)
{
	struct opening *o;
	int err;

	if (x->nr_fds != 1)
		return -EINVAL;
	if (domain_has_files(s, c))
		return reason_encode(LODIC_REASON_SHARE);
	o = port_alloc(sizeof(*o));
	if (!o)
		return -ENOMEM;
	worker_job_init(&o->job, WORKER_ANY, domain_account(s, c), OWNER_CLIENTS,
	                opening_work, opening_done);
	o->client = c;
	o->options = *s->options;
	o->passed = x->fds[0];
	o->cpu = x->request.cpu;
	o->missed = x->request.a;
	o->nr_missed = x->request.b;
	err = service_watch_again(s->base, c->socket, PORT_HANG_UP, &c->socket_source);
	if (!err)
		err = worker_do(s->base, &o->job);
	if (err == -EBUSY) {
		proof_refuse(&o->file, o->passed, err);
		opening_admit(s, NULL, &o->file, 0, &x->reply);
	}
	if (err) {
		service_watch_again(s->base, c->socket, PORT_INPUT, &c->socket_source);
		port_free(o);
		return err;
	}
	c->opening = o;
	x->fds[0] = -1;
	x->later = true;
	return 0;
}

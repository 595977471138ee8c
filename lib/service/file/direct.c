/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * See direct.h. O_DIRECT is a flag of a description, and all reads by that one obey it. The
 * service also reads blocks that the page cache has, at the same time. So it needs two.
 *
 *   none --a cold read--> a worker opens it --> ready --no read for REST_NS--> none
 *                          late: reads go by the other description
 *
 * At rest a file has one descriptor. A worker's answer takes some 10 us, and a cold read 87. So
 * the description stays for REST_NS after the last read, for NR_DIRECT_RESTING files at most.
 *
 * The worker has a descriptor of its own for the file. So the file may go while the worker is
 * stuck.
 */
#include "lib/port.h"
#include "lib/service/base/worker.h"
#include "lib/service/file/direct.h"
#include "lib/service/file/proof.h"
#include "lib/service/file/state.h"
#include "lib/service/base/base.h"
#include "lib/service/file/held.h"

/* How long reads wait for the description. Our choice: an open takes 2 us, but on a loaded machine
 * the worker may have to wait for a CPU. A read by the other description is right, too. It only
 * leaves pages in the kernel's cache. */
#define LATE_NS (200 * NS_PER_MS)
#define REST_NS (200 * NS_PER_MS)

/* The main thread's, but for what the worker needs: fd, and own, which it makes. */
struct direct_opening {
	struct worker_job job;
	struct direct_opening *next; /* of the owner's */
	struct files *owner;         /* NULL: nobody waits for it */
	struct held_file *file;
	int fd, own;
	u64 since_ns;
};

static void opening_unlink(struct direct_opening *o)
{
	struct direct_opening **at = &o->owner->direct.openings;

	while (*at != o) /* it is there as long as it has an owner */
		at = &(*at)->next;
	*at = o->next;
	o->file->opening = NULL;
	o->owner = NULL;
}

static void opening_work(struct worker_job *job)
{
	struct direct_opening *o = (struct direct_opening *)job;

	o->own = proof_open_direct(o->fd);
	service_close_file(&o->fd);
}

static void opening_done(void *base, struct worker_job *job)
{
	struct direct_opening *o = (struct direct_opening *)job;
	struct held_file *f = o->file;

	if (o->owner) {
		opening_unlink(o);
		if (o->own >= 0 && f->nr_in_flight > 0) {
			f->direct_fd = o->own;
			o->own = -1;
		}
	}
	if (o->own >= 0)
		worker_close_local(base, o->own);
	port_free(o);
}

static void opening_begin(struct files *s, struct held_file *f)
{
	struct direct_opening *o;

	if (!worker_any(s->base) || worker_is_stuck(s->base, WORKER_OPENS, LATE_NS))
		return;
	o = port_alloc(sizeof(*o));
	if (!o)
		return;
	*o = (struct direct_opening){
		.next = s->direct.openings,
		.owner = s,
		.file = f,
		.fd = port_dup(f->fd),
		.own = -1,
		.since_ns = host_now_ns(),
	};
	worker_job_init(&o->job, WORKER_OPENS, 0, OWNER_BASE, opening_work, opening_done);
	if (o->fd < 0 || worker_do(s->base, &o->job) != 0) {
		service_close_file(&o->fd); /* a local file's, as f->fd is */
		port_free(o);
		return;
	}
	s->direct.openings = o;
	f->opening = o;
}

bool direct_works(const struct held_file *f)
{
	return f->direct;
}

int direct_fd(const struct held_file *f)
{
	return f->direct_fd;
}

enum direct_state direct_look(const struct held_file *f)
{
	if (f->direct_fd >= 0)
		return DIRECT_READY;
	return f->opening && host_now_ns() - f->opening->since_ns < LATE_NS
	               ? DIRECT_COMES
	               : DIRECT_NONE;
}

enum direct_state direct_want(struct files *s, struct held_file *f)
{
	if (f->direct_fd < 0 && !f->opening)
		opening_begin(s, f);
	return direct_look(f);
}

void direct_rest(struct files *s, struct held_file *f)
{
	struct direct *d = &s->direct;
	u32 slot = (u32)(f - s->slots), i = 0;

	if (f->direct_fd < 0)
		return;
	while (i < d->nr_resting && d->resting[i].slot != slot)
		i++;
	if (i == NR_DIRECT_RESTING || f->state != FILE_HELD ||
	    service_is_crowded(f->direct_fd)) {
		service_close_file(&f->direct_fd); /* a local file's, as f->fd is */
		return;
	}
	d->resting[i].slot = slot;
	d->resting[i].since_ns = host_now_ns();
	d->nr_resting += i == d->nr_resting;
}

/* Of those that have been at rest for so long. */
static void direct_close_resting(struct files *s, u64 rest_ns)
{
	struct direct *d = &s->direct;
	u64 now = host_now_ns();
	u32 kept = 0;

	for (u32 i = 0; i < d->nr_resting; i++) {
		struct held_file *f = &s->slots[d->resting[i].slot];

		if (f->direct_fd < 0 || f->nr_in_flight > 0)
			continue; /* direct_rest() enters it again */
		if (now - d->resting[i].since_ns < rest_ns)
			d->resting[kept++] = d->resting[i];
		else
			service_close_file(&f->direct_fd);
	}
	d->nr_resting = kept;
}

void direct_tick(struct files *s)
{
	direct_close_resting(s, REST_NS);
}

void direct_spare_descriptors(struct files *s)
{
	direct_close_resting(s, 0);
}

void direct_forget_file(struct held_file *f)
{
	if (f->opening)
		opening_unlink(f->opening);
}

void direct_forget(struct files *s)
{
	while (s->direct.openings)
		opening_unlink(s->direct.openings);
}

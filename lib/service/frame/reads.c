/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A read goes through io_uring. Containers often forbid that. Then a worker reads, so that a
 * slow disk holds nobody up but those who wait for its blocks.
 *
 * A block that a reader has missed mostly lies in the kernel's page cache: the reader has just
 * taken it from there. Then the service copies it, and does not ask the disk (ADR-0021).
 *
 * A worker's job has copies of all that it needs. So a worker that is stuck when the service
 * ends touches nothing but its job, and the frames that it reads into.
 */
#include <errno.h>
#include <string.h>

#include "lib/service/base/worker.h"
#include "lib/service/file/direct.h"
#include "lib/service/file/files.h"
#include "lib/service/frame/reads.h"
#include "lib/service/frame/state.h"
#include "lib/service/base/base.h"
#include "lib/service/file/held.h"

/* Of WORKERS_MOST: the others look at files that programs open. */
#define READS_BY_WORKERS 4u
/* Blocks that the main thread copies itself, 6 us: to hand them on costs as much. */
#define COPY_HERE 4u
/* How long the end of the service waits for reads under way. Our choice: a disk answers sooner, and
 * what does not answer may never. The frames of such reads stay until the process has ended. */
#define WAIT_NS (2000 * NS_PER_MS)

struct read_job {
	struct worker_job job;
	struct frames
		*s; /* whose frames: the one before a resize has reads to the last */
	struct fill_op *op; /* the main thread's */
	int fd;
	u32 nr;
	u64 first;
	int result;
	struct port_piece pieces[FILL_RUN];
};

static int reads_fd(const struct held_file *f, bool direct)
{
	return direct ? direct_fd(f) : held_fd(f);
}

static int reads_now(int fd, const struct port_piece *pieces, u32 nr, u64 first)
{
	u32 tries = READ_TRIES;
	int64_t n;

	do
		n = port_read_pieces(fd, pieces, nr, first << BLOCK_SHIFT);
	while (n == -EINTR && --tries > 0);
	return (int)n;
}

static void reads_work(struct worker_job *job)
{
	struct read_job *r = (struct read_job *)job;

	r->result = reads_now(r->fd, r->pieces, r->nr, r->first);
}

static void reads_done(void *base, struct worker_job *job)
{
	struct read_job *r = (struct read_job *)job;

	(void)base;
	r->s->fill.ended(r->s, r->op, r->result);
	port_free(r);
}

static void reads_by_worker(struct frames *s, struct fill_op *op)
{
	int fd = reads_fd(files_at(s->files, op->slot), op->direct);
	struct read_job *r = worker_any(s->base) ? port_alloc(sizeof(*r)) : NULL;

	op->in_ring = false;
	if (r) {
		worker_job_init(&r->job, op->far ? WORKER_FAR : WORKER_ANY, 0, OWNER_BASE,
		                reads_work, reads_done);
		r->s = s;
		r->op = op;
		r->fd = fd;
		r->nr = op->nr;
		r->first = op->first;
		memcpy(r->pieces, op->pieces, op->nr * sizeof(op->pieces[0]));
		worker_do(s->base, &r->job); /* it is for no program, so it is accepted */
		return;
	}
	/* No memory, or the service ends. The main thread must not read: the file's readers have
	 * the kernel, and this file may never answer. */
	s->fill.ended(s, op, -EAGAIN);
}

static bool reads_is_warm(const struct held_file *f, const struct fill_op *op)
{
	u64 offset = op->first << BLOCK_SHIFT, bytes = (u64)op->nr << BLOCK_SHIFT;
	u64 left = held_size(f) - offset;

	return port_is_cached(held_fd(f), offset, bytes < left ? bytes : left);
}

/* It is known by which description op reads. */
static u32 reads_go(struct frames *s, struct fill_op *op)
{
	const struct held_file *f = files_at(s->files, op->slot);
	struct port_read read = { .fd = reads_fd(f, op->direct),
		                  .elsewhere = !op->direct && op->nr > COPY_HERE,
		                  .pieces = op->pieces,
		                  .nr_pieces = op->nr,
		                  .offset = op->first << BLOCK_SHIFT,
		                  .of = op };
	bool added;

	op->in_ring = s->fill.reads != NULL;
	if (!op->in_ring) {
		reads_by_worker(s, op);
		return 0;
	}
	added = port_reads_add(s->fill.reads, &read);
	CHECK(added, "the ring has a place for every op");
	return op->direct || read.elsewhere ? 0 : op->nr;
}

u32 reads_begin(struct frames *s, struct fill_op *op)
{
	struct held_file *f = files_at(s->files, op->slot);
	enum direct_state state = DIRECT_NONE;

	/* Mostly a reader has just read the block from the kernel. Then a copy takes 1.6 us,
	 * and a read from the disk 87 us. */
	if (direct_works(f) && !reads_is_warm(f, op))
		state = direct_want(s->files, f);
	op->direct = state == DIRECT_READY;
	op->waits = state == DIRECT_COMES;
	if (!op->waits)
		return reads_go(s, op);
	s->fill.nr_waiting++;
	op->in_ring = false;
	return 0;
}

void reads_turn(struct frames *s)
{
	for (u32 i = 0; i < FILL_OPS && s->fill.nr_waiting > 0; i++) {
		struct fill_op *op = &s->fill.ops[i];
		enum direct_state state;

		if (!op->busy || !op->waits)
			continue;
		state = direct_look(files_at(s->files, op->slot));
		if (state == DIRECT_COMES)
			continue;
		op->waits = false;
		s->fill.nr_waiting--;
		op->direct = state == DIRECT_READY;
		reads_go(s, op);
	}
	if (s->fill.reads)
		port_reads_send(s->fill.reads);
}

/* The service ends: no worker opens anything any more. */
static void reads_end_waiting(struct frames *s)
{
	for (u32 i = 0; i < FILL_OPS && s->fill.nr_waiting > 0; i++) {
		struct fill_op *op = &s->fill.ops[i];

		if (!op->busy || !op->waits)
			continue;
		op->waits = false;
		s->fill.nr_waiting--;
		s->fill.ended(s, op, -ECANCELED);
	}
}

bool reads_again(struct frames *s, struct fill_op *op, int result)
{
	if (result == -EINVAL && op->direct) {
		/* It opened O_DIRECT, but cannot read so, or not in pieces of 4 KiB. */
		files_not_direct(s->files, files_at(s->files, op->slot));
		op->direct = false;
	} else if ((result != -EAGAIN && result != -EINTR) || !op->in_ring) {
		return false;
	}
	reads_by_worker(s, op);
	return true;
}

void reads_reap(struct frames *s)
{
	void *op;
	int result;

	while (s->fill.reads && port_reads_next(s->fill.reads, &op, &result))
		s->fill.ended(s, op, result);
}

static bool reads_any_in_ring(const struct frames *s)
{
	for (u32 i = 0; i < FILL_OPS; i++)
		if (s->fill.ops[i].busy && s->fill.ops[i].in_ring)
			return true;
	return false;
}

void reads_wait(struct frames *s)
{
	u64 end_ns = host_now_ns() + WAIT_NS;

	reads_end_waiting(s);
	/* Each turn takes a twentieth of the time, or brings a read back. */
	while (reads_any_in_ring(s) && host_now_ns() < end_ns) {
		port_reads_send(s->fill.reads);
		port_reads_wait(s->fill.reads, WAIT_NS / 20);
		reads_reap(s);
	}
}

int reads_init(struct frames *s,
               void (*ended)(struct frames *s, struct fill_op *op, int result))
{
	struct fill *fill = &s->fill;
	int err = port_reads_make(FILL_OPS, &fill->reads);

	fill->ended = ended;
	fill->most_busy = err ? READS_BY_WORKERS : FILL_OPS;
	if (err) {
		service_say(s->base, SERVICE_WARNING, "no_io_uring",
		            "no io_uring here (%s); reading with preadv",
		            strerror(-err));
		return 0;
	}
	return service_watch_as(s->base, port_reads_event(fill->reads), PORT_INPUT,
	                        SOURCE_RING);
}

void reads_fini(struct frames *s)
{
	if (s->fill.reads)
		port_reads_end(s->fill.reads);
	s->fill.reads = NULL;
}

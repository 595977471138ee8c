/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: port.h. Descriptors, events, pipes, and the wait for one descriptor. */
#include <stdlib.h>
#include <string.h>

#include "host/whole/machine.h"
#include "lib/port.h"
#include "lib/port/set.h"

#define PIPE_BYTES 4096u

/* ---- descriptions ---- */

void *description_new(const struct kind *kind, size_t bytes)
{
	struct description *d = calloc(1, bytes);

	if (!d)
		machine_fail("there is no memory for a description");
	d->kind = kind;
	d->nr = 1;
	d->number = ++machine.nr_described;
	d->maker = machine.running ? process_now()->number : 0;
	machine.nr_descriptions++;
	return d;
}

void description_keep(struct description *d)
{
	d->nr++;
}

void description_put(struct description *d)
{
	if (--d->nr > 0)
		return;
	members_end(d);
	waiters_wake(&d->waiters);
	machine.nr_descriptions--;
	if (d->kind->end)
		d->kind->end(d);
	free(d);
}

void description_closes(const struct description *d, bool unread)
{
	const struct task *t = machine.running;

	if (t && !machine.in_event && t->may_close && !t->may_close(d, unread))
		machine_fail("%s %s closes a file%s, which may wait", t->process->name, t->name,
		             unread ? " that nobody has received" : "");
}

void description_hold(struct description *d)
{
	description_keep(d);
	machine.running->held = d;
}

void description_release(struct task *task)
{
	struct description *d = task->held;

	task->held = NULL;
	if (d)
		description_put(d);
}

void description_changed(struct description *d)
{
	d->inputs++;
	waiters_wake(&d->waiters);
	members_changed(d);
}

static bool fds_full(const struct process *p, u32 number)
{
	return number >= p->fd_limit || number >= MACHINE_MOST_FDS;
}

static u32 fd_lowest(const struct process *process)
{
	u32 number = process->nr_before_zero > 0;

	while (!fds_full(process, number) && process->fds[number])
		number++;
	return number;
}

bool fd_any(const struct process *process)
{
	return !fds_full(process, fd_lowest(process));
}

int fd_new(struct process *process, struct description *d)
{
	u32 number = fd_lowest(process);

	if (fds_full(process, number))
		return -EMFILE;
	process->nr_before_zero -= process->nr_before_zero > 0;
	process->fds[number] = d;
	process->received[number] = false;
	return (int)number;
}

struct description *fd_get(int fd)
{
	return fd >= 0 && fd < (int)MACHINE_MOST_FDS ? process_now()->fds[fd] : NULL;
}

void *fd_of(int fd, const struct kind *kind)
{
	struct description *d = fd_get(fd);

	return d && d->kind == kind ? d : NULL;
}

void fd_unused(const struct process *process, int fd)
{
	for (const struct task *t = process->tasks; t; t = t->next)
		if (t->state != TASK_OVER && t->reads_by == (u32)fd + 1)
			machine_fail("%s closes descriptor %d, by which its thread reads",
			             process->name, fd);
}

void fd_close(struct process *process, int fd)
{
	fd_unused(process, fd);
	struct description *d = process->fds[fd];

	process->fds[fd] = NULL;
	description_put(d);
}

/* A number for d, or d goes. */
static long fd_give(void *d)
{
	int fd = fd_new(process_now(), d);

	if (fd < 0)
		description_put(d);
	return machine_result(fd);
}

void port_close(int fd)
{
	machine_pass(CALL_CLOSE);
	if (!fd_get(fd))
		machine_fail("descriptor %d is closed, and was not open", fd);
	machine_note("closes %d", fd);
	memory_frees(fd_get(fd));
	description_closes(fd_get(fd), false);
	fd_close(process_now(), fd);
}

int port_dup(int fd)
{
	int err = machine_call(CALL_DUP);
	struct description *d = fd_get(fd);

	if (err || !d)
		return err ? err : -EBADF;
	description_keep(d);
	return (int)fd_give(d);
}

int port_replace(int fd, int number)
{
	int err = machine_call(CALL_REPLACE);
	struct process *p = process_now();
	struct description *d = fd_get(fd);

	if (err || !d || number < 0 || fds_full(p, (u32)number))
		return err ? err : -EBADF;
	description_keep(d);
	if (p->fds[number])
		fd_close(p, number);
	p->fds[number] = d;
	return (int)machine_result(0);
}

int port_mode(int fd, unsigned int *ret_mode)
{
	struct description *d;

	machine_pass(CALL_MODE);
	d = fd_get(fd);
	if (!d)
		return -EBADF;
	*ret_mode = d->mode;
	return 0;
}

/* ---- events ---- */

struct fd_event {
	struct description d;
	u64 told;
};

static unsigned int event_ready(const struct description *d)
{
	return ((const struct fd_event *)d)->told ? PORT_INPUT : 0;
}

static const struct kind event_kind = { "event", event_ready, NULL };

bool fd_event_is(const struct description *d)
{
	return d->kind == &event_kind;
}

int port_event(void)
{
	int err = machine_call(CALL_EVENT);

	if (err)
		return err;
	return (int)fd_give(description_new(&event_kind, sizeof(struct fd_event)));
}

bool port_event_tell(int fd)
{
	struct fd_event *e;

	machine_pass(CALL_EVENT_TELL);
	e = fd_of(fd, &event_kind);
	if (!e)
		return false;
	e->told++;
	description_changed(&e->d);
	return machine_result(true);
}

bool port_event_take(int fd)
{
	struct fd_event *e;
	bool told;

	machine_pass(CALL_EVENT_TAKE);
	e = fd_of(fd, &event_kind);
	told = e && e->told > 0;
	if (told)
		e->told = 0;
	return machine_result(told);
}

bool port_is_event(int fd)
{
	machine_pass(CALL_IS_EVENT);
	return fd_of(fd, &event_kind) != NULL;
}

/* ---- pipes ---- */

struct pipe {
	u32 nr_ends;
	u32 bytes;
	u8 data[PIPE_BYTES];
};
struct pipe_end {
	struct description d;
	struct pipe *pipe;
	struct pipe_end *other; /* NULL: it has gone */
};

static unsigned int pipe_ready(const struct description *d)
{
	const struct pipe_end *e = (const struct pipe_end *)d;

	return e->pipe->bytes > 0 || !e->other ? PORT_INPUT : 0;
}

static void pipe_end_end(struct description *d)
{
	struct pipe_end *e = (struct pipe_end *)d;

	if (e->other) {
		e->other->other = NULL;
		description_changed(&e->other->d);
	}
	if (--e->pipe->nr_ends == 0)
		free(e->pipe);
}

static const struct kind pipe_kind = { "pipe", pipe_ready, pipe_end_end };

static struct pipe_end *pipe_end_new(struct pipe *pipe)
{
	struct pipe_end *e = description_new(&pipe_kind, sizeof(*e));

	pipe->nr_ends++;
	e->pipe = pipe;
	return e;
}

int port_pipe(int ret_fds[2])
{
	int err = machine_call(CALL_PIPE), reads, writes;
	struct pipe *pipe;
	struct pipe_end *r, *w;

	if (err)
		return err;
	pipe = calloc(1, sizeof(*pipe));
	r = pipe_end_new(pipe);
	w = pipe_end_new(pipe);
	r->other = w;
	w->other = r;
	reads = fd_new(process_now(), &r->d);
	if (reads < 0) {
		description_put(&r->d);
		description_put(&w->d);
		return reads;
	}
	writes = fd_new(process_now(), &w->d);
	if (writes < 0) {
		fd_close(process_now(), reads);
		description_put(&w->d);
		return writes;
	}
	ret_fds[0] = reads;
	ret_fds[1] = writes;
	return (int)machine_result(0);
}

int64_t port_take(int fd, void *to, size_t bytes)
{
	int err = machine_call(CALL_TAKE);
	struct pipe_end *e = fd_of(fd, &pipe_kind);

	if (err || !e)
		return err ? err : -EBADF;
	if (e->pipe->bytes == 0)
		return machine_result(e->other ? -EAGAIN : 0);
	if (bytes > e->pipe->bytes)
		bytes = e->pipe->bytes;
	memcpy(to, e->pipe->data, bytes);
	e->pipe->bytes -= (u32)bytes;
	memmove(e->pipe->data, e->pipe->data + bytes, e->pipe->bytes);
	return machine_result((long)bytes);
}

void pipe_write(int fd, const void *from, size_t bytes)
{
	struct pipe_end *e = fd_of(fd, &pipe_kind);

	if (!e || e->pipe->bytes + bytes > PIPE_BYTES)
		return;
	memcpy(e->pipe->data + e->pipe->bytes, from, bytes);
	e->pipe->bytes += (u32)bytes;
	if (e->other)
		description_changed(&e->other->d);
}

/* ---- the wait for one descriptor ---- */

static bool fd_is_ready(const struct description *d, enum port_waiting what)
{
	unsigned int now = d->kind->ready ? d->kind->ready(d) : 0;

	if (what == PORT_HANG_UP)
		return now & READY_HANG_UP;
	return now != 0;
}

int port_ready(int fd, enum port_waiting what)
{
	int err = machine_call(CALL_READY);
	struct description *d = fd_get(fd);

	if (!err && process_now()->fd_limit == 0) /* poll(2): as many as it asks for */
		err = -EINVAL;
	if (err)
		return err;
	return (int)machine_result(d ? fd_is_ready(d, what) : 1);
}

int port_wait(int fd, enum port_waiting what, int ms)
{
	u64 until = ms < 0 ? NS_NEVER : machine.now_ns + (u64)ms * 1000000;
	int err = machine_call(CALL_WAIT);
	struct description *d = fd_get(fd);

	if (!err && process_now()->fd_limit == 0)
		err = -EINVAL;
	if (err)
		return err;
	if (!d)
		return 1; /* poll(2) says that it is invalid: that is something to look at */
	description_hold(d);
	while (!fd_is_ready(d, what) && machine.now_ns < until)
		if (!task_wait(&d->waiters, until))
			break;
	err = fd_is_ready(d, what);
	description_release(machine.running);
	task_cancel_point(CALL_WAIT);
	return (int)machine_result(err);
}

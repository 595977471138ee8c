/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: port/lease.h and port/mark.h. Leases and their signals, and the mark of death. */
#include <string.h>

#include "host/whole/files.h"
#include "lib/port/lease.h"
#include "lib/port/mark.h"
#include "lib/port/thread.h"

#define LEASE_BREAK_NS ((u64)45 * 1000000000)

/* ---- signals ---- */

struct fd_breaks {
	struct description d;
	struct process *process;
};

static unsigned int breaks_ready(const struct description *d)
{
	const struct task *t = machine.running; /* who asks */

	(void)d;
	return t && (t->nr_breaks > 0 || t->break_any || t->process->break_any)
	               ? PORT_INPUT
	               : 0;
}

static void breaks_end(struct description *d)
{
	((struct fd_breaks *)d)->process->breaks = NULL;
}

static const struct kind breaks_kind = { "breaks", breaks_ready, breaks_end };

int port_breaks(void)
{
	int err = machine_call(CALL_BREAKS), fd;
	struct fd_breaks *b;

	if (err)
		return err;
	b = description_new(&breaks_kind, sizeof(*b));
	b->process = process_now();
	fd = fd_new(process_now(), &b->d);
	if (fd < 0)
		description_put(&b->d);
	else
		process_now()->breaks = &b->d;
	return (int)machine_result(fd);
}

unsigned int port_breaks_next(int breaks, int ret_fds[PORT_BREAKS_AT_ONCE])
{
	struct task *t = machine.running;
	unsigned int nr = 0;

	machine_pass(CALL_BREAKS_NEXT);
	if (!fd_of(breaks, &breaks_kind))
		machine_fail("asks %d for breaks", breaks);
	if (t->break_any || t->process->break_any)
		ret_fds[nr++] = PORT_BREAK_ANY;
	t->break_any = t->process->break_any = false;
	for (u32 i = 0; i < t->nr_breaks; i++)
		ret_fds[nr++] = t->breaks[i];
	t->nr_breaks = 0;
	return (unsigned int)machine_result(nr);
}

static int lease_fd(const struct process *p, const struct fd_file *file)
{
	for (u32 i = 0; i < MACHINE_MOST_FDS; i++)
		if (p->fds[i] == &file->d)
			return (int)i;
	return -1;
}

/* Without an aim any thread of the process hears of it, and of no descriptor. */
static void lease_signal(const struct fd_file *file)
{
	struct task *t = file->aim > 0 ? &machine.tasks[file->aim - 1] : NULL;
	struct process *p = t ? t->process : file->taker;

	if (t && t->state == TASK_OVER)
		return;
	if (!t)
		p->break_any = true;
	else if (t->nr_breaks < MACHINE_MOST_BREAKS)
		t->breaks[t->nr_breaks++] = lease_fd(p, file);
	else
		t->break_any = true;
	if (p->breaks)
		description_changed(p->breaks);
}

/* ---- leases ---- */

static void lease_none(struct fd_file *file)
{
	if (file->lease == LEASE_NONE)
		return;
	file->lease = LEASE_NONE;
	waiters_wake(&file->inode->writers);
}

void lease_end(struct fd_file *file)
{
	lease_none(file);
}

static bool leases_any(const struct inode *inode)
{
	for (const struct fd_file *f = inode->open; f; f = f->next)
		if (f->lease != LEASE_NONE)
			return true;
	return false;
}

bool leases_ask(struct inode *inode)
{
	bool any = leases_any(inode);

	inode->nr_broken += any;
	for (struct fd_file *f = inode->open; f; f = f->next)
		if (f->lease == LEASE_HELD) {
			f->lease = LEASE_BREAKING;
			lease_signal(f);
		}
	return any;
}

void leases_break(struct inode *inode)
{
	u64 until = machine.now_ns + LEASE_BREAK_NS;

	inode->nr_writing++; /* nobody gets a lease meanwhile */
	machine.running->writing = inode;
	leases_ask(inode);
	while (leases_any(inode) && machine.now_ns < until)
		task_wait(&inode->writers, until);
	if (leases_any(inode)) {
		machine_note("the kernel takes leases away");
		inode->forced = true;
	}
	for (struct fd_file *f = inode->open; f; f = f->next)
		lease_none(f);
	leases_end(machine.running);
}

void leases_end(struct task *task)
{
	if (task->writing)
		task->writing->nr_writing--;
	task->writing = NULL;
}

int port_lease_aim(int fd, int thread)
{
	int err = machine_call(CALL_LEASE_AIM);
	struct fd_file *file = fd_file_of(fd);

	if (err || !file)
		return err ? err : -EBADF;
	file->aim = (u32)thread;
	return (int)machine_result(0);
}

int port_lease_take(int fd)
{
	int err = machine_call(CALL_LEASE_TAKE);
	struct fd_file *file = fd_file_of(fd);

	if (err || !file)
		return err ? err : -EBADF;
	if (process_now()->uid != 0 && process_now()->uid != file->inode->uid)
		return (int)machine_result(-EACCES);
	if (file->inode->kind != PORT_FILE_REGULAR || machine.no_leases)
		return (int)machine_result(-EINVAL);
	if (file->inode->nr_writing > 0)
		return (int)machine_result(-EAGAIN);
	file->lease = LEASE_HELD;
	file->taker = process_now();
	file->inode->forced = false;
	return (int)machine_result(0);
}

void port_lease_give(int fd)
{
	struct fd_file *file;

	machine_pass(CALL_LEASE_GIVE);
	file = fd_file_of(fd);
	if (!file)
		machine_fail("gives the lease of %d back, which is no file", fd);
	machine_note("gives the lease of %d back", fd);
	lease_none(file);
}

bool port_lease_holds(int fd)
{
	machine_pass(CALL_LEASE_HOLDS);
	return machine_result(fd_file_of(fd) &&
	                      fd_file_of(fd)->lease == LEASE_HELD);
}

/* ---- the mark of death ---- */

struct mark {
	u32 *word;
};
_Static_assert(sizeof(struct mark) <= sizeof(struct port_mark), "a mark has room");

int port_thread_number(void)
{
	return (int)machine.running->number;
}

int port_mark_set(struct port_mark *mark, uint32_t *word)
{
	int err = machine_call(CALL_MARK_SET);

	if (err)
		return err;
	((struct mark *)mark)->word = word;
	machine.running->mark = mark;
	return (int)machine_result(0);
}

void port_mark_clear(struct port_mark *mark)
{
	machine_pass(CALL_MARK_CLEAR);
	((struct mark *)mark)->word = NULL;
}

void mark_end(struct task *task)
{
	const struct mark *mark = task->mark;

	if (mark && mark->word && (*mark->word & PORT_MARK_NUMBER) == task->number)
		*mark->word = (*mark->word & UINT32_C(0x80000000)) | PORT_MARK_DEAD;
	task->mark = NULL;
}

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: port/reads.h. Reads under way end in any order, some time later. */
#include <stdlib.h>

#include "host/whole/files.h"
#include "lib/port/reads.h"

#define MOST_READS 64u
#define NS_PER_MS ((u64)1000000)

enum reading_state { READ_FREE, READ_ADDED, READ_BEGUN, READ_ENDED };

struct reading {
	enum reading_state state;
	struct port_reads *of;
	struct description *file; /* kept until it has ended */
	struct port_read read;
	struct event ends;
	struct reading *next_stuck; /* whose server is silent */
	bool stuck;
	int result;
};
static struct reading *stuck;

struct port_reads {
	struct description d;
	struct process *process;
	int fd;
	u32 most;
	struct reading each[MOST_READS];
};

static unsigned int reads_ready(const struct description *d)
{
	const struct port_reads *r = (const struct port_reads *)d;

	for (u32 i = 0; i < r->most; i++)
		if (r->each[i].state == READ_ENDED)
			return PORT_INPUT;
	return 0;
}

static void reading_unstick(struct reading *one)
{
	struct reading **at = &stuck;

	if (!one->stuck)
		return;
	while (*at != one)
		at = &(*at)->next_stuck;
	*at = one->next_stuck;
	one->stuck = false;
}

static void reading_drop(struct reading *one)
{
	event_drop(&one->ends);
	reading_unstick(one);
	if (one->file)
		description_put(one->file);
	one->file = NULL;
	one->state = READ_FREE;
}

static void reads_end(struct description *d)
{
	struct port_reads *r = (struct port_reads *)d;

	for (u32 i = 0; i < r->most; i++)
		reading_drop(&r->each[i]);
}

static const struct kind reads_kind = { "reads", reads_ready, reads_end };

static long pieces_read(struct process *process, const struct inode *inode,
                        const struct port_piece *pieces, unsigned int nr_pieces,
                        u64 offset)
{
	u64 all = 0, got;

	for (unsigned int i = 0; i < nr_pieces; i++) {
		got = inode_read(inode, pieces[i].at, pieces[i].bytes, offset + all);
		all += got;
		if (got < pieces[i].bytes)
			break;
	}
	process->bytes_read += all;
	return (long)all;
}

int64_t port_read_pieces(int fd, const struct port_piece *pieces,
                         unsigned int nr_pieces, uint64_t offset)
{
	struct fd_file *file;
	int64_t got;
	int err;

	machine.running->reads_by = (u32)fd + 1;
	err = machine_call(CALL_READ_PIECES);
	file = fd_file_of(fd);
	if (err || !file || !(file->d.mode & PORT_MAY_READ)) {
		machine.running->reads_by = 0;
		return err ? err : -EBADF;
	}
	server_ask_by(file);
	if (machine.read_ms > 0 && !machine.faults_end)
		task_wait(NULL, machine.now_ns + machine_draw(machine.read_ms) * NS_PER_MS);
	machine.running->reads_by = 0;
	if (machine_draws(FAULT_SHORT))
		nr_pieces = 1 + machine_draw(nr_pieces);
	got = machine_result(pieces_read(process_now(), file->inode, pieces, nr_pieces, offset));
	description_release(machine.running);
	return got;
}

bool port_is_cached(int fd, uint64_t offset, uint64_t bytes)
{
	(void)fd;
	(void)offset;
	(void)bytes;
	machine_pass(CALL_IS_CACHED);
	return machine_result(machine_draw(2));
}

void port_drop_cached(int fd, uint64_t offset, uint64_t bytes)
{
	(void)fd;
	(void)offset;
	(void)bytes;
	machine_pass(CALL_DROP_CACHED);
}

/* ---- reads under way ---- */

int port_reads_make(unsigned int most, struct port_reads **ret_reads)
{
	int err = machine_call(CALL_READS_MAKE);
	struct port_reads *r;

	if (err || machine.no_reads)
		return err ? err : (int)machine_result(-ENOSYS);
	if (most > MOST_READS)
		machine_fail("%u reads under way", most);
	r = description_new(&reads_kind, sizeof(*r));
	r->process = process_now();
	r->most = most;
	r->fd = fd_new(process_now(), &r->d);
	if (r->fd < 0) {
		err = r->fd;
		description_put(&r->d);
		return (int)machine_result(err);
	}
	*ret_reads = r;
	return (int)machine_result(0);
}

void port_reads_end(struct port_reads *r)
{
	machine_pass(CALL_READS_END);
	fd_close(process_now(), r->fd);
}

int port_reads_event(const struct port_reads *r)
{
	return r->fd;
}

bool port_reads_add(struct port_reads *r, const struct port_read *read)
{
	u32 i = 0;

	machine_pass(CALL_READS_ADD);
	while (i < r->most && r->each[i].state != READ_FREE)
		i++;
	if (i == r->most)
		return machine_result(false);
	r->each[i] = (struct reading){ .state = READ_ADDED, .of = r, .read = *read,
		                       .file = fd_get(read->fd) };
	if (r->each[i].file)
		description_keep(r->each[i].file);
	return machine_result(true);
}

/* In the middle of anything: the bytes are those of this moment. */
static void reading_ends(void *of)
{
	struct reading *one = of;
	const struct port_read *read = &one->read;
	const struct fd_file *file = (const struct fd_file *)one->file;
	u32 nr = read->nr_pieces;
	int fault;

	if (server_is_silent(file->inode->server) && !one->of->process->dead) {
		one->next_stuck = stuck;
		stuck = one;
		one->stuck = true;
		return;
	}
	fault = machine_fault(CALL_READS_NEXT);
	if (one->result == 0 && machine_draws(FAULT_SHORT))
		nr = 1 + machine_draw(nr);
	if (one->of->process->dead)
		one->result = -ECANCELED; /* its memory has gone */
	else if (fault)
		one->result = fault;
	else if (one->result == 0)
		one->result = (int)pieces_read(one->of->process, file->inode,
		                               read->pieces, nr, read->offset);
	description_put(one->file);
	one->file = NULL;
	one->state = READ_ENDED;
	machine_note("a read under way ends: %d", one->result);
	description_changed(&one->of->d);
}

void reads_answered(u32 server)
{
	struct reading *one, *next;

	for (one = stuck; one; one = next) {
		next = one->next_stuck;
		if (((const struct fd_file *)one->file)->inode->server != server)
			continue;
		reading_unstick(one);
		event_at(&one->ends, machine.now_ns + 1000 + machine_draw(200000),
		         reading_ends, one);
	}
}

void port_reads_send(struct port_reads *r)
{
	machine_pass(CALL_READS_SEND);
	for (u32 i = 0; i < r->most; i++) {
		struct reading *one = &r->each[i];
		u64 ns = 1000 + machine_draw(200000);

		if (one->state != READ_ADDED)
			continue;
		one->state = READ_BEGUN;
		if (!one->file || !fd_file_is(one->file) ||
		    !(one->file->mode & PORT_MAY_READ)) {
			one->result = -EBADF;
			one->state = READ_ENDED;
			description_changed(&r->d);
			continue;
		}
		if (machine_draws(FAULT_DELAY))
			ns = machine_delay();
		event_at(&one->ends, machine.now_ns + ns, reading_ends, one);
	}
}

bool port_reads_next(struct port_reads *r, void **ret_of, int *ret_result)
{
	u32 ended[MOST_READS], nr = 0;
	struct reading *one;

	machine_pass(CALL_READS_NEXT);
	for (u32 i = 0; i < r->most; i++)
		if (r->each[i].state == READ_ENDED)
			ended[nr++] = i;
	if (nr == 0)
		return machine_result(false);
	one = &r->each[ended[machine_draw(nr)]];
	*ret_of = one->read.of;
	*ret_result = one->result;
	reading_drop(one);
	return machine_result(true);
}

void port_reads_wait(struct port_reads *r, uint64_t ns)
{
	machine_pass(CALL_READS_WAIT);
	if (!reads_ready(&r->d))
		task_wait(&r->d.waiters, machine.now_ns + ns);
}

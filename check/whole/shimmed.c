/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * See shimmed.h.
 *
 * A thread marks the numbers that its call changes (busy), and no other thread changes them
 * meanwhile. Others may read there: a read sees a file that was there at some moment of the call.
 */
#define _GNU_SOURCE
#include "check/whole/shimmed.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "check/whole/settle.h"
#include "check/whole/waits.h"
#include "check/whole/world_files.h"
#include "host/whole/guest.h"
#include "lib/port.h"

#define MOST_OPENED 64u
#define MOST_NUMBERS 20u /* that a program has open */
#define READ_BYTES 8192u
/* What no call leaves in errno. */
#define UNTOUCHED EDOM
/* The shim starts a service once in a minute, and then the file may have to wait. */
#define CACHED_NS ((u64)240 * 1000000000)
#define AGAIN_NS 20000000u
#define REOPEN_ONE_IN 32u

/* An open file, as the program knows it. */
struct opened {
	u32 nr; /* numbers that lead to it; 0: free */
	u32 file;
	u32 mode; /* enum port_mode */
	u64 at;   /* where read(2) goes on */
	bool moves; /* a thread reads there by position, or seeks */
};

struct number {
	struct opened *is; /* NULL: it is closed */
	bool busy;
};

/* A read under way. */
struct reading {
	bool on;
	bool may_fail; /* the number was closed, or led to what cannot be read */
	int fd;
	bool may_be[WORLD_MOST_FILES]; /* a file that was there */
	u64 least[WORLD_MOST_FILES];   /* its version when the read began */
};

static struct shimmed {
	struct shimmed_plan plan;
	struct process *process;
	struct number numbers[MACHINE_MOST_FDS];
	struct opened opened[MOST_OPENED];
	struct reading readings[SHIMMED_THREADS + 1];
	u32 nr_running; /* threads besides the first */
} programs[SHIMMED_MOST];
static u32 nr_programs;

static const char *const environment[] = {
	"LODIC_RUN_SOCKET=" WORLD_SOCKET, "LODIC_RUN_USER=1000",
	"LODIC_RUN_PROGRAM=/bin/lodic",   "LODIC_RUN_FILTERS=0",
	NULL,
};

static struct shimmed *shimmed_now(void)
{
	struct shimmed *s = programs;

	while (s->process != process_now())
		s++;
	return s;
}

static bool shimmed_is_alone(const struct shimmed *s)
{
	return s->nr_running == 0;
}

/* ---- what it remembers ---- */

static struct opened *opened_new(struct shimmed *s, u32 file, u32 mode)
{
	struct opened *o = s->opened;

	while (o->nr > 0)
		o++;
	*o = (struct opened){ .file = file, .mode = mode };
	return o;
}

/* A read of that number may see this from now on. */
static void readings_tell(struct shimmed *s, int fd, const struct opened *is)
{
	for (u32 i = 0; i <= SHIMMED_THREADS; i++) {
		struct reading *r = &s->readings[i];

		if (!r->on || r->fd != fd)
			continue;
		if (!is || !(is->mode & PORT_MAY_READ))
			r->may_fail = true;
		else
			r->may_be[is->file] = true;
	}
}

static void number_is(struct shimmed *s, int fd, struct opened *is)
{
	struct number *n = &s->numbers[fd];

	readings_tell(s, fd, n->is);
	readings_tell(s, fd, is);
	if (is)
		is->nr++;
	if (n->is)
		n->is->nr--;
	n->is = is;
}

static u32 numbers_open(const struct shimmed *s)
{
	u32 nr = 0;

	for (u32 i = 0; i < MACHINE_MOST_FDS; i++)
		nr += s->numbers[i].is != NULL;
	return nr;
}

/* One that is open and that nobody changes; -1: there is none. */
static int number_draw(const struct shimmed *s)
{
	int found[MACHINE_MOST_FDS];
	u32 nr = 0;

	for (u32 i = 0; i < MACHINE_MOST_FDS; i++)
		if (s->numbers[i].is && !s->numbers[i].busy)
			found[nr++] = (int)i;
	return nr > 0 ? found[machine_draw(nr)] : -1;
}

/* What the kernel would give. The shim has its own numbers high up, or low if it must; those that
 * the program has closed behind its back are free. */
static int number_lowest(const struct shimmed *s, int from)
{
	while (s->numbers[from].is || (guest_owns(from) && fd_get(from)))
		from++;
	return from;
}

/* The table is what the program has made of it, and the shim has but its own. */
static void shimmed_look(const struct shimmed *s)
{
	for (int fd = 0; shimmed_is_alone(s) && fd < (int)MACHINE_MOST_FDS; fd++) {
		const struct opened *is = s->numbers[fd].is;
		const struct fd_file *file = fd_file_of(fd);

		if (is && (!file || file->inode != world_files[is->file].inode))
			machine_fail("descriptor %d does not lead to %s any more", fd,
			             world_files[is->file].path);
		if (!is && fd_get(fd) && !guest_owns(fd))
			machine_fail("descriptor %d is neither the program's nor the shim's",
			             fd);
	}
}

static void shimmed_expects(const char *call, long got, long wanted, int error)
{
	if (got != wanted || errno != error)
		machine_fail("%s() = %ld, errno %d; not %ld, %d", call, got, errno, wanted,
		             error);
}

/* ---- what changes the table ---- */

static void shimmed_opens(struct shimmed *s)
{
	static const int flags[] = { O_RDONLY, O_RDONLY, O_RDONLY, O_RDONLY,
		                     O_RDONLY | O_DIRECT, O_RDWR, O_WRONLY };
	u32 how = machine_draw(sizeof(flags) / sizeof(flags[0])), file = 0, mode = 0;
	const char *path = world_paths[machine_draw(WORLD_FILES)];
	int fd, wanted = shimmed_is_alone(s) ? number_lowest(s, 0) : -1;

	if (numbers_open(s) >= MOST_NUMBERS)
		return;
	errno = UNTOUCHED;
	fd = hooked_open(path, flags[how], 0);
	if (fd < 0) {
		if (errno != ENOENT && errno != EACCES)
			machine_fail("open() says %d", errno);
		return;
	}
	if (wanted >= 0)
		shimmed_expects("open", fd, wanted, UNTOUCHED);
	while (file < world_nr && world_files[file].inode != fd_file_of(fd)->inode)
		file++;
	mode |= (flags[how] & O_ACCMODE) == O_WRONLY ? 0 : PORT_MAY_READ;
	mode |= (flags[how] & O_ACCMODE) == O_RDONLY ? 0 : PORT_MAY_WRITE;
	number_is(s, fd, opened_new(s, file, mode));
}

static void shimmed_closes(struct shimmed *s, int fd)
{
	int result;

	s->numbers[fd].busy = true;
	number_is(s, fd, NULL);
	errno = UNTOUCHED;
	result = hooked_close(fd);
	shimmed_expects("close", result, 0, UNTOUCHED);
	s->numbers[fd].busy = false;
}

static void shimmed_dups(struct shimmed *s, int from)
{
	int lowest = machine_draw(2) ? (int)machine_draw(32) : -1;
	int fd, wanted = number_lowest(s, lowest < 0 ? 0 : lowest);

	if (numbers_open(s) >= MOST_NUMBERS)
		return;
	s->numbers[from].busy = true;
	errno = UNTOUCHED;
	fd = lowest < 0 ? hooked_dup(from)
	                : hooked_fcntl(from, F_DUPFD, (unsigned long)lowest);
	if (fd < 0 || shimmed_is_alone(s))
		shimmed_expects("dup", fd, wanted, UNTOUCHED);
	number_is(s, fd, s->numbers[from].is);
	s->numbers[from].busy = false;
}

/* May the running thread change what is there? Only a program that is alone may take a number that
 * is free: another thread's open() might get it. */
static bool number_is_mine(const struct shimmed *s, int fd)
{
	return !s->numbers[fd].busy && (s->numbers[fd].is || (shimmed_is_alone(s) && !fd_get(fd)));
}

/* to: another number of its own, or one that is free. */
static void shimmed_replaces(struct shimmed *s, int from, int to)
{
	bool third = machine_draw(2);
	int fd;

	if (to < 0 || from == to || !number_is_mine(s, to))
		return;
	s->numbers[from].busy = s->numbers[to].busy = true;
	/* A read may see both until the call is over. */
	readings_tell(s, to, s->numbers[from].is);
	errno = UNTOUCHED;
	fd = third ? hooked_dup3(from, to, O_CLOEXEC) : hooked_dup2(from, to);
	shimmed_expects("dup2", fd, to, UNTOUCHED);
	number_is(s, to, s->numbers[from].is);
	s->numbers[from].busy = s->numbers[to].busy = false;
}

/* Two or three numbers that follow each other. */
static void shimmed_closes_range(struct shimmed *s, int first)
{
	int last = first + (int)machine_draw(3);

	for (int fd = first; fd <= last; fd++)
		if (!number_is_mine(s, fd))
			return;
	for (int fd = first; fd <= last; fd++) {
		s->numbers[fd].busy = true;
		number_is(s, fd, NULL);
	}
	errno = UNTOUCHED;
	shimmed_expects("close_range", hooked_close_range((u32)first, (u32)last, 0), 0,
	                UNTOUCHED);
	for (int fd = first; fd <= last; fd++)
		s->numbers[fd].busy = false;
}

/* A number of the shim's; -1: it has none now. */
static int number_of_shim(void)
{
	int found[MACHINE_MOST_FDS];
	u32 nr = 0;

	for (int fd = 0; fd < (int)MACHINE_MOST_FDS; fd++)
		if (guest_owns(fd) && fd_get(fd))
			found[nr++] = fd;
	return nr > 0 ? found[machine_draw(nr)] : -1;
}

/* The program does not know that the shim has a number there. */
static void shimmed_strays(struct shimmed *s, int from)
{
	int to = number_of_shim();

	if (to < 0 || s->numbers[to].busy || s->numbers[to].is)
		return;
	errno = UNTOUCHED;
	switch (machine_draw(3)) {
	case 0: shimmed_expects("close", hooked_close(to), -1, EBADF); break;
	case 1:
		shimmed_expects("dup2", hooked_dup2(from, to), to, UNTOUCHED);
		number_is(s, to, s->numbers[from].is);
		break;
	default: shimmed_expects("close", guest_next_close(to), 0, UNTOUCHED); break;
	}
}

static void shimmed_changes(struct shimmed *s)
{
	int fd = number_draw(s);

	switch (fd < 0 ? 0 : machine_draw(9)) {
	case 0:
	case 1: shimmed_opens(s); break;
	case 2: shimmed_dups(s, fd); break;
	case 3: shimmed_replaces(s, fd, number_draw(s)); break;
	case 4: shimmed_replaces(s, fd, (int)machine_draw(32)); break;
	case 5: shimmed_closes_range(s, fd); break;
	case 6:
		if (s->plan.strays && shimmed_is_alone(s))
			shimmed_strays(s, fd);
		break;
	default: shimmed_closes(s, fd); break;
	}
}

/* ---- reads ---- */

static void reading_begins(struct shimmed *s, struct reading *r, int fd)
{
	*r = (struct reading){ .on = true, .fd = fd };
	for (u32 i = 0; i < WORLD_MOST_FILES; i++)
		r->least[i] = i < world_nr ? world_files[i].complete : 1;
	readings_tell(s, fd, s->numbers[fd].is);
	r->may_fail |= s->numbers[fd].busy; /* it may be closed by now */
}

static void reading_check(const struct shimmed *s, const struct reading *r, const u64 *words,
                          u64 nr_bytes, u64 offset)
{
	struct world_open open = { NULL, (u32)(words[0] >> 32) & 0xff };
	/* A number that was closed may be another thread's by now, whose open() is not over. */
	bool any = r->may_fail && !shimmed_is_alone(s);

	if (nr_bytes == 0)
		return;
	if (open.number >= world_nr || (!any && !r->may_be[open.number]))
		machine_fail("descriptor %d gave %llx at %llu, which is of another file", r->fd,
		             (unsigned long long)words[0], (unsigned long long)offset);
	world_check(&open, offset, words, nr_bytes, r->least[open.number]);
	world.nr_reads++;
}

/* What a file is while a read goes on that nothing else disturbs. */
struct stands {
	const struct opened *is;
	u64 bytes, cuts, begun;
};

static struct stands stands_now(const struct shimmed *s, int fd)
{
	const struct opened *is = s->numbers[fd].is;
	const struct world_file *file = &world_files[is ? is->file : 0];

	return (struct stands){ is, file->inode->bytes, file->cuts,
		                file->begun != file->complete && !file->inode->forced
		                        ? file->begun
		                        : 0 };
}

static void stands_check(const struct shimmed *s, const struct stands *before, int fd,
                         u64 offset, u64 bytes, long got, bool served)
{
	struct stands after = stands_now(s, fd);
	const struct world_file *file;
	u64 left;

	if (!before->is || after.is != before->is || s->numbers[fd].busy)
		return;
	file = &world_files[after.is->file];
	if (served && before->begun && before->begun == after.begun)
		machine_fail("%s is served while a writer has it open", file->path);
	left = before->bytes > offset ? before->bytes - offset : 0;
	if (before->cuts != after.cuts || file->inode->forced || file->sure_ns > machine.now_ns)
		return;
	if (before->is->mode & PORT_MAY_READ && (u64)got != (left < bytes ? left : bytes))
		machine_fail("%s: %ld bytes at %llu of %llu", file->path, got,
		             (unsigned long long)offset, (unsigned long long)before->bytes);
}

static ssize_t shimmed_preads(int fd, u8 *to, u64 bytes, u64 offset)
{
	u64 first = machine_draw(4) ? bytes : 8 + machine_draw((u32)bytes / 8) * (u64)8;
	struct iovec pieces[2] = { { to, first }, { NULL, 0 } };
	ssize_t n;

	if (first > bytes)
		first = pieces[0].iov_len = bytes;
	pieces[1] = (struct iovec){ to + first, bytes - first };
	waits_guest_begin();
	n = first == bytes ? hooked_pread(fd, to, bytes, (off_t)offset)
	                   : hooked_preadv(fd, pieces, 2, (off_t)offset);
	waits_guest_end();
	return n;
}

static void shimmed_reads(struct shimmed *s, struct reading *r, int fd)
{
	u64 to[READ_BYTES / sizeof(u64)], nr_reads = machine.running->nr_reads;
	u64 offset = machine_draw((u32)(WORLD_FILE_BYTES + 512) / 512) * (u64)512;
	u64 bytes = 8 + 8 * machine_draw(READ_BYTES / 8 - 1);
	struct stands before = stands_now(s, fd);
	ssize_t n;

	reading_begins(s, r, fd);
	errno = UNTOUCHED;
	n = shimmed_preads(fd, (u8 *)to, bytes, offset);
	r->on = false;
	/* For a moment a socket of the shim's may have a number that was closed. */
	if (n < 0 && (!r->may_fail || (errno != EBADF && (errno != ESPIPE || shimmed_is_alone(s)))))
		machine_fail("pread() of %d fails with %d", fd, errno);
	if (n < 0)
		return;
	if (errno != UNTOUCHED)
		machine_fail("pread() leaves %d in errno", errno);
	reading_check(s, r, to, (u64)n, offset);
	stands_check(s, &before, fd, offset, bytes, n, machine.running->nr_reads == nr_reads);
}

/* By position, which all duplicates share. */
static void shimmed_reads_on(struct shimmed *s, struct reading *r, int fd)
{
	u64 to[READ_BYTES / sizeof(u64)], bytes = 8 + 8 * machine_draw(READ_BYTES / 8 - 1);
	struct opened *is = s->numbers[fd].is;
	u64 seek = machine_draw((u32)WORLD_FILE_BYTES / 8) * (u64)8;
	ssize_t n;

	if (is->moves)
		return;
	is->moves = s->numbers[fd].busy = true;
	reading_begins(s, r, fd);
	errno = UNTOUCHED;
	if (machine_draw(4) == 0)
		is->at = seek;
	if (guest_next_lseek(fd, is->at == seek ? (off_t)seek : 0,
	                     is->at == seek ? SEEK_SET : SEEK_CUR) != (off_t)is->at)
		machine_fail("descriptor %d does not stand at %llu", fd,
		             (unsigned long long)is->at);
	n = hooked_read(fd, to, bytes);
	r->on = false;
	if (n >= 0)
		reading_check(s, r, to, (u64)n, is->at);
	else if (errno != EBADF || is->mode & PORT_MAY_READ)
		machine_fail("read() of %d fails with %d", fd, errno);
	is->at += n > 0 ? (u64)n : 0;
	is->moves = s->numbers[fd].busy = false;
}

/* Errors that the kernel judges. */
static void shimmed_reads_wrongly(const struct shimmed *s, int fd)
{
	u8 to[64];

	errno = UNTOUCHED;
	if (!shimmed_is_alone(s))
		return;
	if (machine_draw(2) == 0)
		shimmed_expects("pread", hooked_pread(fd, to, 8, -8), -1, EINVAL);
	else if (!fd_get(fd + 40) && !s->numbers[fd + 40].is)
		shimmed_expects("pread", hooked_pread(fd + 40, to, 8, 0), -1, EBADF);
}

/* ---- the program ---- */

static void shimmed_round(struct shimmed *s, struct reading *r)
{
	int fd = number_draw(s);

	if (fd < 0 || machine_draw(s->plan.changes) == 0)
		shimmed_changes(s);
	else if (machine_draw(16) == 0)
		shimmed_reads_on(s, r, fd);
	else if (machine_draw(32) == 0)
		shimmed_reads_wrongly(s, fd);
	else
		for (u32 i = 1 + machine_draw(8); i > 0 && s->numbers[fd].is; i--)
			shimmed_reads(s, r, fd);
	if (s->plan.gives_up && machine_draw(64) == 0 && r == s->readings)
		guest_changes_rights();
	if (machine_draw(32) == 0)
		task_wait(NULL, machine.now_ns + machine_draw(400) * (u64)1000000);
	shimmed_look(s);
}

static void shimmed_thread(void *arg)
{
	struct shimmed *s = shimmed_now();

	for (u32 i = s->plan.nr_rounds; i > 0; i--)
		shimmed_round(s, arg);
	s->nr_running--;
}

static void shimmed_works(struct shimmed *s)
{
	struct task *threads[SHIMMED_THREADS];

	for (u32 i = 0; i < s->plan.nr_threads; i++) {
		if (machine.nr_tasks >= MACHINE_MOST_TASKS / 2)
			break;
		s->nr_running++;
		threads[i] = task_start(process_now(), "thread", shimmed_thread,
		                        &s->readings[i + 1]);
		threads[i]->joined = true;
	}
	for (u32 i = s->plan.nr_rounds; i > 0; i--)
		shimmed_round(s, s->readings);
	while (s->nr_running > 0)
		task_wait(NULL, machine.now_ns + AGAIN_NS);
	shimmed_look(s);
}

/* The file is served again: no read of it comes to the kernel. */
static void shimmed_is_served(struct shimmed *s, int fd)
{
	u64 until = machine.now_ns + CACHED_NS, nr_reads;
	u32 file = s->numbers[fd].is->file;

	do {
		nr_reads = machine.running->nr_reads;
		shimmed_reads(s, s->readings, fd);
		if (nr_reads == machine.running->nr_reads || world_files[file].inode->bytes == 0)
			return;
		if (machine.now_ns > until && !world.few_files)
			machine_fail("%s is not served for so long", world_files[file].path);
		port_sleep(AGAIN_NS);
		if (machine_draw(REOPEN_ONE_IN) == 0) { /* an open() may start a service */
			int other = hooked_open(world_files[file].path, O_RDONLY, 0);

			if (other >= 0)
				hooked_close(other);
		}
	} while (machine.now_ns <= until);
}

static void shimmed_settles(struct shimmed *s)
{
	for (int fd = 0; fd < (int)MACHINE_MOST_FDS; fd++)
		if (s->numbers[fd].is)
			shimmed_closes(s, fd);
	settle_here();
	for (u32 i = 0; i < WORLD_FILES; i++) {
		int fd = hooked_open(world_paths[i], O_RDONLY, 0);
		u32 file = 0;

		if (fd < 0)
			continue;
		while (world_files[file].inode != fd_file_of(fd)->inode)
			file++;
		number_is(s, fd, opened_new(s, file, PORT_MAY_READ));
		shimmed_is_served(s, fd);
		shimmed_closes(s, fd);
		shimmed_look(s);
	}
}

static void shimmed_run(void *arg)
{
	struct shimmed *s = arg;

	s->process = process_now();
	guest_start(environment);
	for (u32 i = 1 + machine_draw(2); i > 0; i--)
		shimmed_works(s);
	shimmed_settles(s);
	process_exit(0);
}

void shimmed_begin(void)
{
	memset(programs, 0, sizeof(programs));
	nr_programs = 0;
	if (machine.fault_call != NR_CALLS && machine_draw(2))
		machine_one_error(true);
}

struct process *shimmed_start(const struct shimmed_plan *plan)
{
	struct shimmed *s = &programs[nr_programs++];
	struct process *p = process_start("program", WORLD_USER, shimmed_run, s);

	s->plan = *plan;
	p->mortal = true;
	settle_expect(p);
	return p;
}

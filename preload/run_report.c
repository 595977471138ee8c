/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the shim of `lodic run` served in one process, and what not, per file and reason. Each
 * process says so at its end, if the user has asked (--report): run_print.c. Then each read costs a
 * few words, and an fstat() if its descriptor has no file in the shim's table. So a run with a
 * report is slower than one without.
 *
 * For `lodic doctor` the words lie in a file, and the process says nothing.
 *
 * A read is counted for the file in the table, or for the one that fstat() shows just after it.
 */
#define _GNU_SOURCE
#include "preload/run_report.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/port/guest.h"
#include "preload/line.h"
#include "preload/memory.h"
#include "preload/own.h"
#include "preload/run_environment.h"
#include "preload/run_print.h"
#include "preload/run_totals.h"
#include "preload/run_watched.h"

#define SEEN_TRIES 64u
/* The file system's sizes end there, and so does what a bit for each block would take. */
#define BITS_MOST_FILE ((u64)16 << 40)

static struct seen_process *process_map_fd(void *at, int fd)
{
	int flags = (fd < 0 ? PORT_PRIVATE | PORT_ANONYMOUS : PORT_SHARED) |
	            PORT_UNRESERVED | (at ? PORT_FIXED : 0);
	void *p;

	if (port_map(at, sizeof(struct seen_process), PORT_READ | PORT_WRITE, flags, fd,
	             0, &p) != 0)
		return NULL;
	if (fd < 0)
		port_advise(p, sizeof(struct seen_process), PORT_WIPE_IN_CHILD);
	return p;
}

/* Memory to count in, at the address at if that is not NULL. A process that finds the doctor's
 * folder full leaves an empty file. */
static struct seen_process *process_map(void *at)
{
	const char *folder = shim.report.folder;
	int fd = folder[0] ? run_watched_file(folder, sizeof(struct seen_process)) : -1;
	struct seen_process *p = process_map_fd(at, fd);

	if (p && fd >= 0 &&
	    (!memory_is_there(p, offsetof(struct seen_process, files)) ||
	     !memory_is_there(&p->files[SEEN_FILES], sizeof(struct seen)))) {
		p = process_map_fd(p, -1);
		port_resize(fd, 0);
	}
	if (fd >= 0)
		port_shut(fd);
	if (!p)
		return NULL;
	p->pid = (u64)port_process();
	p->user = port_user();
	strncpy(p->name, port_program_name(), sizeof(p->name) - 1);
	return p;
}

void run_report_keep(void)
{
	int fd;

	if (!shim.report.path[0] || own_is(shim.report.fd - 1))
		return;
	fd = port_append(shim.report.path);
	fd = fd < 0 ? -1 : own_keep(fd);
	shim.report.fd = fd + 1;
}

void run_report_forked(void)
{
	struct seen_process *p = shim.report.process;
	int error = errno;

	shim.report.reported_pid = 0;
	shim.report.is_first = false;
	if (p && shim.report.folder[0]) {
		u64 marks = p->marks; /* a child has what its parent had */

		memset(shim.report.there, 0, sizeof(shim.report.there));
		process_map(p);
		p->marks = marks;
	}
	errno = error;
}

void run_report_becomes(u32 user)
{
	if (shim.report.process && shim.report.folder[0] && port_user() == 0)
		run_watched_becomes(shim.report.folder, user);
}

void run_report_left(void)
{
	if (shim.report.process)
		host_store_relaxed(&shim.report.process->user, port_user());
}

void run_report_mark(u64 mark)
{
	struct seen_process *p = shim.report.process;

	if (p)
		host_store_relaxed(&p->marks, host_load_relaxed(&p->marks) | mark);
}

/* The segment that `lodic run` has made. */
static void totals_find(void)
{
	const char *id = port_variable(RUN_TOTALS);
	struct run_totals *totals;
	u64 bytes;
	void *at;

	if (!id || shim.report.folder[0])
		return;
	shim.report.totals_id = (int)strtol(id, NULL, 10);
	if (port_segment_bytes(shim.report.totals_id, &bytes) != 0 ||
	    bytes != sizeof(*totals) ||
	    port_segment_map(shim.report.totals_id, &at) != 0)
		return;
	totals = at;
	if (totals->magic == RUN_TOTALS_MAGIC)
		shim.report.totals = totals;
	else
		port_segment_unmap(totals);
}

bool run_report_start(void)
{
	const char *path = port_variable(RUN_REPORT);
	const char *watched = port_variable(RUN_DOCTOR);
	const char *first = port_variable(RUN_FIRST);
	struct seen_process *p;

	shim.report.is_first =
		first && strtoull(first, NULL, 10) == (u64)port_process();
	if (watched && strlen(watched) < sizeof(shim.report.folder))
		strcpy(shim.report.folder, watched);
	else if (!path || !*path || strlen(path) >= sizeof(shim.report.path))
		return false;
	else if (strcmp(path, RUN_REPORT_STDERR) != 0)
		strcpy(shim.report.path, path);
	shim.report.json = port_variable(RUN_JSON) != NULL;
	shim.report.every_file = port_variable(RUN_ALL) != NULL;
	totals_find();
	p = process_map(NULL);
	shim.report.process = p;
	if (p)
		shim.report.seen = p->files;
	if (shim.report.folder[0])
		shim.report.ends = memory_zeros(FDS_NR * sizeof(u64));
	return p;
}

static void seen_fill(struct seen *f, const struct run_noted *noted)
{
	struct port_file is;

	f->dev = noted->dev;
	f->ino = noted->ino;
	if (port_look(noted->fd, &is) == 0 && is.dev == f->dev && is.ino == f->ino) {
		f->size = is.bytes;
		f->mtime_ns = is.mtime_ns;
	}
	if (port_path_of(noted->fd, f->path, sizeof(f->path)) != 0)
		snprintf(f->path, sizeof(f->path), "inode %llu of device %llu",
		         (unsigned long long)f->ino, (unsigned long long)f->dev);
	host_store_release(&f->owner, 2);
}

static struct seen *seen_find(const struct run_noted *noted)
{
	u64 hash = (noted->ino ^ noted->dev << 32) * UINT64_C(0x9e3779b97f4a7c15);
	u64 owner;

	for (u32 i = 0; i < SEEN_TRIES; i++) {
		u32 place = (u32)((hash >> 32) + i) & (SEEN_FILES - 1);
		struct seen *f = &shim.report.seen[place];

		if (!host_load_byte(&shim.report.there[place])) {
			if (shim.report.folder[0] && !memory_is_there(f, sizeof(*f)))
				break;
			host_store_byte(&shim.report.there[place], 1);
		}
		owner = host_load_acquire(&f->owner);
		if (owner == 0 && host_cas(&f->owner, 0, 1)) {
			seen_fill(f, noted);
			return f;
		}
		/* Another thread fills it: it may be for this file. Look there no more. */
		if (owner == 2 && f->dev == noted->dev && f->ino == noted->ino)
			return f;
		if (owner < 2)
			break;
	}
	return &shim.report.seen[SEEN_FILES];
}

/* The bits of a file's blocks. NULL: there is no memory. */
static u64 *bits_of(const struct seen *f)
{
	const size_t bytes = f->size / SEEN_BLOCK_BYTES / 8 + sizeof(u64);
	u64 *place = (u64 *)&shim.report.bits[f - shim.report.seen];
	u64 pid = shim.report.process->pid;

	if (host_load_relaxed(&shim.report.bits_pid) != pid) { /* a child's */
		memset(shim.report.bits, 0, sizeof(shim.report.bits));
		host_store_relaxed(&shim.report.bits_pid, pid);
	}
	if (!host_load_acquire(place) && f->size < BITS_MOST_FILE) {
		void *made = memory_zeros(bytes);

		if (made && !host_cas(place, 0, (u64)made))
			port_unmap(made, bytes);
	}
	return (u64 *)host_load_acquire(place);
}

static bool is_askew(const struct run_noted *noted)
{
	u64 within = (u64)noted->offset % SEEN_BLOCK_BYTES;
	u64 last = noted->bytes ? (noted->bytes - 1) % SEEN_BLOCK_BYTES : 0;

	return within + last >= SEEN_BLOCK_BYTES;
}

/* Which blocks a program came to for the first time. Two threads may lose a bit, and count a
 * block twice: the number is for an estimate. */
static void count_blocks(struct seen *f, const struct run_noted *noted)
{
	u64 *of_file = f == &shim.report.seen[SEEN_FILES] ? NULL : bits_of(f);
	u64 from = (u64)noted->offset / SEEN_BLOCK_BYTES, to = from, new = 0;

	if (!of_file || noted->bytes == 0)
		return;
	to = ((u64)noted->offset + noted->bytes - 1) / SEEN_BLOCK_BYTES;
	for (u64 i = from; i <= to && i <= f->size / SEEN_BLOCK_BYTES; i++) {
		u64 word = host_load_relaxed(&of_file[i / 64]);

		if (word >> i % 64 & 1)
			continue;
		host_store_relaxed(&of_file[i / 64], word | UINT64_C(1) << i % 64);
		new ++;
	}
	if (new)
		host_fetch_add(&f->blocks, new);
}

/* Does the read go on where the last one of its descriptor has ended? Threads that share one may
 * be taken for a scan, or a scan for them. */
static bool goes_on(const struct run_noted *noted)
{
	u64 begin = (u64)noted->offset, end;

	if (!shim.report.ends || (u32)noted->fd >= FDS_NR || noted->offset < 0)
		return false;
	end = host_load_relaxed(&shim.report.ends[noted->fd]);
	host_store_relaxed(&shim.report.ends[noted->fd], begin + noted->bytes);
	return begin > 0 && begin == end;
}

/* The counts of f that this thread adds to. */
static struct seen_counts *counts_mine(struct seen *f)
{
	u32 *stripe = &shim_thread.report_stripe;

	if (!*stripe)
		*stripe = (u32)(host_fetch_add(&shim.report.next_stripe, 1) %
		                SEEN_STRIPES) +
		          1;
	return &f->counts[*stripe - 1];
}

void run_report_note(struct run_noted *noted)
{
	struct seen_process *p = shim.report.process;
	bool in_order = goes_on(noted);
	struct seen *f = &shim.report.seen[SEEN_FILES];
	struct seen_counts *mine;
	struct port_file is;
	u32 size = 0;

	if (!noted->known) {
		if (port_look(noted->fd, &is) != 0)
			return;
		noted->known = is.kind == PORT_FILE_REGULAR;
		noted->dev = is.dev;
		noted->ino = is.ino;
	}
	if (noted->known)
		f = seen_find(noted);
	else if (!shim.report.folder[0])
		return;
	else
		noted->why = RUN_NOT_REGULAR;
	mine = counts_mine(f);
	if (noted->error)
		host_store_relaxed(&f->reason, (u64)noted->error);
	if (noted->map) {
		host_fetch_add(&mine->maps[noted->why], 1);
		if (noted->moved)
			host_fetch_add(&mine->maps[noted->was], -(u64)1);
		if (noted->moved && noted->was == RUN_SERVED)
			host_fetch_add(&mine->mapped_bytes, -noted->bytes);
		if (noted->why == RUN_SERVED)
			host_fetch_add(&mine->mapped_bytes, noted->bytes);
		return;
	}
	host_fetch_add(&mine->reads[noted->why], 1);
	host_fetch_add(&mine->bytes[noted->why], noted->bytes);
	if (noted->why != RUN_COULD)
		return;
	while (size < SEEN_SIZES - 1 && noted->bytes > seen_size_ends[size])
		size++;
	host_fetch_add(&mine->size_reads[size], 1);
	host_fetch_add(&mine->size_bytes[size], noted->bytes);
	if (in_order)
		host_fetch_add(&mine->in_order_bytes, noted->bytes);
	if (is_askew(noted))
		host_fetch_add(&mine->askew_reads, 1);
	if (noted->ns)
		host_fetch_add(&p->times[size][seen_time_place(noted->ns)], 1);
	count_blocks(f, noted);
}

void run_note_moved(const struct run_noted *moved)
{
	struct run_noted noted = *moved;

	if (shim.run.reports)
		run_report_note(&noted);
}

static struct print_to print_to(void)
{
	return (struct print_to){ .path = shim.report.path,
		                  .kept = shim.report.fd - 1,
		                  .json = shim.report.json,
		                  .all = shim.report.every_file };
}

void run_report_left_alone(const char *why)
{
	struct print_to to;

	line_start();
	if (!run_report_start())
		return;
	to = print_to();
	print_note(&to, why);
}

static void totals_add(const struct seen_counts *c)
{
	struct seen_counts *to = &shim.report.totals->counts;

	host_fetch_add(&shim.report.totals->processes, 1);
	for (u32 k = 0; k < RUN_NR_WHYS; k++) {
		host_fetch_add(&to->reads[k], c->reads[k]);
		host_fetch_add(&to->bytes[k], c->bytes[k]);
	}
	for (u32 k = 0; k < RUN_NR_MAP_WHYS; k++)
		host_fetch_add(&to->maps[k], c->maps[k]);
	host_fetch_add(&to->mapped_bytes, c->mapped_bytes);
}

/* Of all processes that have ended: the first one says it, if it has not been alone. A program adds
 * up JSON by itself. own: this process has read something. false: no process has read anything. */
static bool totals_end(const struct print_to *to, bool own)
{
	struct run_totals *totals = shim.report.totals;
	u64 processes = totals ? host_load_acquire(&totals->processes) : own;

	if (shim.report.is_first && totals) {
		if (processes > own && !shim.report.json)
			print_total(to, processes, &totals->counts);
		port_segment_end(shim.report.totals_id);
	}
	return processes > 0;
}

void run_report_end(bool stderr_closing)
{
	struct seen_counts *all = &shim.report.all;
	struct print_to to = print_to();
	bool any;

	if (shim.report.folder[0] && !stderr_closing)
		run_watched_end(shim.report.process);
	if (shim.report.folder[0])
		return;
	if (shim.report.reported_pid == (u64)port_process() ||
	    (stderr_closing && shim.report.path[0]))
		return;
	if (!shim.report.path[0] && !line_stderr_is_ours())
		return;
	memset(all, 0, sizeof(*all));
	for (u32 i = 0; i <= SEEN_FILES; i++)
		if (i == SEEN_FILES || host_load_acquire(&shim.report.seen[i].owner))
			print_add(all, &shim.report.seen[i]);
	any = print_has_any(all);
	if (any) {
		shim.report.reported_pid = (u64)port_process();
		print_files(&to, shim.report.seen, all);
		if (shim.report.totals)
			totals_add(all);
	}
	if (!totals_end(&to, any) && shim.report.is_first)
		print_note(&to,
		           shim.report.totals
		                   ? "the program reads no file by libc's read(), "
		                     "pread() and their relatives"
		                   : "this process reads no file by libc's read(), "
		                     "pread() and their relatives; its children have "
		                     "lines of their own");
	shim.report.is_first = false;
}

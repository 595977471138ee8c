/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The reads, and the start. Rules: run.h. */
#define _GNU_SOURCE
#include "preload/run.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "lib/client/error.h"
#include "lib/port/guest.h"
#include "lib/port/limit.h"
#include "preload/go.h"
#include "preload/line.h"
#include "preload/run_await.h"
#include "preload/run_calls.h"
#include "preload/run_environment.h"

/* What one read(2) takes at most. */
#define RUN_MOST_BYTES 0x7ffff000u

/* `lodic doctor` takes the time of one read in so many. */
#define RUN_TIMED_READS 17u

/* ---- descriptors ---- */

/* Within calls_begin(), or when the shim has stepped aside. */
static void sweep_if_due(struct run_state *s)
{
	struct fds_hold hold;
	u64 now;

	if (!host_load_relaxed(&s->nr_idle) || host_load_relaxed(&s->off))
		return;
	now = host_now_ns();
	if (now < host_load_relaxed(&s->sweep_at_ns) || !run_lock(s, &hold, false))
		return;
	run_sweep(s, now);
	run_unlock(s, &hold);
}

void run_changes(int fd)
{
	struct run_state *s = shim.run.state;
	bool calls, known;
	u64 slot;

	if (!s || (u32)fd >= FDS_NR) /* U11 */
		return;
	known = host_load_relaxed(&s->fds.slots[fd]) != 0;
	if (!known && !host_load_relaxed(&s->nr_idle))
		return;
	calls = calls_begin(s);
	if (known && (!calls || fds_is_ours())) { /* U18 */
		slot = host_xchg(&s->fds.slots[fd], 0);
		if ((slot & FDS_KIND) == FDS_FILE)
			run_file_unnamed(s, run_file_of(slot));
	}
	sweep_if_due(s);
	if (calls)
		calls_end(s);
}

void run_changes_from(unsigned int first, unsigned int last)
{
	u64 top = shim.run.state ? host_load_relaxed(&shim.run.state->fds.top) : 0;

	for (u64 fd = first; fd <= last && fd < top; fd++)
		run_changes((int)fd);
}

/* Why a descriptor is left alone: for the report. */
static enum run_why descriptor_skipped(int fd)
{
	enum run_why why = RUN_WRITABLE;
	int error = errno;
	struct port_file is;

	if (shim.run.reports && calls_begin(shim.run.state)) {
		why = run_fits(fd, &is);
		calls_end(shim.run.state);
	}
	errno = error;
	return why;
}

/* ---- reads ---- */

/* The descriptor's second read has found its file: the service hears of it at once, so that the
 * third may be served. */
static void descriptor_ask(struct run_state *s, int fd, const struct run_missed *m)
{
	u64 slot = host_load_relaxed(&s->fds.slots[fd]);
	struct run_reader *r;

	if ((slot & FDS_KIND) != FDS_FILE || shim.run.watches)
		return;
	r = reader_mine(s);
	if (r && !host_load_relaxed(&r->busy)) /* U16 */
		run_step(s, r, fd, slot, m);
}

/* What the kernel must read brings the shim further. got: why the reader has not read it. */
static enum run_why read_unserved(struct run_state *s, struct run_reader *r, int fd,
                                  u64 slot, int64_t got, const struct run_missed *m)
{
	enum run_why why = RUN_NOT_CACHED;

	if (!calls_begin(s))
		return RUN_STOPPED;
	sweep_if_due(s);
	if ((slot & FDS_KIND) != FDS_FILE) {
		why = run_look_new(s, fd, slot);
		descriptor_ask(s, fd, m);
	} else if (got != -EAGAIN) {
		why = run_step(s, r, fd, slot, m);
	}
	calls_end(s);
	if ((slot & FDS_KIND) == FDS_FILE && got != -EAGAIN)
		run_await(s, r, fd, slot, m);
	return why;
}

/* *ret_bytes: what it reads. */
static bool is_usual(const struct iovec *to, int nr, int64_t offset, u64 *ret_bytes)
{
	size_t bytes = 0;

	if (offset < 0 || nr <= 0 || nr > IOV_MAX)
		return false;
	for (int i = 0; i < nr; i++) {
		if (to[i].iov_len > RUN_MOST_BYTES - bytes)
			return false;
		bytes += to[i].iov_len;
	}
	*ret_bytes = bytes;
	return bytes > 0;
}

/* A read by the thread's reader, whose file it has. *ret_off: the shim has stepped aside. */
static int64_t read_lent(struct run_state *s, struct run_reader *r, u64 slot,
                         const struct iovec *to, int nr, int64_t offset, bool *ret_off)
{
	int64_t got = -ESTALE;

	host_store_relaxed(&r->busy, 1);
	host_fence_light();
	*ret_off = host_load_relaxed(&s->off); /* once more: U19 */
	if (likely(!*ret_off))
		got = lent_read(r->context, &run_file_of(slot)->lent,
		                fds_generation(slot), to, nr, (u64)offset);
	host_fence_light();
	host_store_relaxed(&r->busy, 0);
	return got;
}

/* The answer of the service may have come just now: then the read is served after all. */
static enum run_why read_again(struct run_state *s, struct run_reader *r, int fd,
                               u64 slot, const struct iovec *to, int nr,
                               const struct run_missed *m, int64_t *ret_n)
{
	enum run_why why = read_unserved(s, r, fd, slot, -ESTALE, m);
	const struct run_file *f = run_file_of(slot);
	int64_t got;
	bool off;

	if ((why != RUN_AWAY && why != RUN_ASKED) ||
	    host_load_relaxed(&f->lent.generation) == GENERATION_NONE)
		return why;
	got = read_lent(s, r, slot, to, nr, (int64_t)m->offset, &off);
	if (got < 0)
		return got == -EAGAIN ? RUN_NOT_CACHED : why;
	*ret_n = got;
	return RUN_SERVED;
}

enum run_why run_read(int fd, const struct iovec *to, int nr, int64_t offset,
                      int64_t *ret_n)
{
	struct run_missed missed = { .offset = (u64)offset };
	struct run_state *s = shim.run.state;
	struct run_reader *r;
	bool off, usual;
	int64_t got;
	u64 slot;

	run_reads();
	if (!s || (u32)fd >= FDS_NR)
		return RUN_STOPPED;
	slot = host_load_acquire(&s->fds.slots[fd]);
	if (slot == FDS_SKIP)
		return descriptor_skipped(fd);
	if (host_load_relaxed(&s->off) || !host_load_relaxed(&s->fds.pid))
		return host_load_relaxed(&shim.run.gone) ? RUN_GONE : RUN_STOPPED;
	usual = is_usual(to, nr, offset, &missed.bytes);
	if ((slot & FDS_KIND) != FDS_FILE)
		return read_unserved(s, NULL, fd, slot, 0, &missed);
	if (!usual)
		return RUN_UNUSUAL;
	if (shim.run.watches) {
		shim_thread.timed_ns =
			++shim_thread.nr_timed % RUN_TIMED_READS ? 0 : host_now_ns();
		return host_load_relaxed(&run_file_of(slot)->locked) ? RUN_LOCKED
		                                                     : RUN_COULD;
	}
	r = reader_mine(s);
	if (!r || host_load_relaxed(&r->busy)) /* U16 */
		return RUN_BUSY;
	port_cancel_point(); /* as pread() does */
	got = read_lent(s, r, slot, to, nr, offset, &off);
	if (likely(got >= 0)) {
		*ret_n = got;
		return RUN_SERVED;
	}
	if (off)
		return RUN_STOPPED;
	return got == -ESTALE ? read_again(s, r, fd, slot, to, nr, &missed, ret_n)
	                      : read_unserved(s, r, fd, slot, got, &missed);
}

/* Within calls_begin(). */
static void note(struct run_noted *noted)
{
	u64 slot = (u32)noted->fd < FDS_NR
	                   ? host_load_relaxed(&shim.run.state->fds.slots[noted->fd])
	                   : 0;
	const struct run_file *f = run_file_of(slot);

	if ((slot & FDS_KIND) == FDS_FILE) {
		noted->known = true;
		noted->dev = f->lent.dev;
		noted->ino = f->lent.ino;
		if (noted->why == RUN_REFUSED && !noted->map)
			noted->error = (int)host_load_relaxed(&f->lent.reason);
		if (noted->why == RUN_REFUSED && !noted->error)
			noted->error = (int)host_load_relaxed(&shim.run.state->refusal);
	}
	run_report_note(noted);
}

void run_note(int fd, int64_t n, int64_t offset, enum run_why why)
{
	struct run_noted noted = {
		.fd = fd, .offset = offset, .bytes = (u64)n, .why = why
	};
	int error = errno;

	if ((!shim.run.reports && !shim.run.records) || !shim.run.state || n < 0 ||
	    !calls_begin(shim.run.state))
		return;
	if (shim.run.records)
		run_record_read(fd, (u64)n, offset);
	if (why == RUN_COULD && shim_thread.timed_ns) {
		noted.ns = host_now_ns() - shim_thread.timed_ns;
		shim_thread.timed_ns = 0;
	}
	if (shim.run.reports)
		note(&noted);
	calls_end(shim.run.state);
	errno = error;
}

void run_note_map(const struct run_mapping *m, enum run_why why)
{
	struct run_noted noted = { .fd = m->fd,
		                   .bytes = m->bytes,
		                   .why = why,
		                   .error = m->error,
		                   .map = true };
	int error = errno;

	if (!shim.run.reports || !shim.run.state || !calls_begin(shim.run.state))
		return;
	note(&noted);
	calls_end(shim.run.state);
	errno = error;
}

/* ---- start ---- */

/* Is this process under a seccomp filter that `lodic run` was not under? Such a filter may kill
 * a program for a system call that it does not make by itself. The question takes openat(), read()
 * and close(), which the loader has just done, too. */
static bool is_filtered(void)
{
	const char *allowed = port_variable(RUN_FILTERS);
	u64 nr = line_of_status("\nSeccomp_filters:");

	if (nr == LINE_UNKNOWN && !port_is_filtered())
		nr = 0; /* no /proc */
	return !allowed || nr != strtoull(allowed, NULL, 10);
}

/* The service stays while somebody is connected. So the first program is, from its start. */
static void connect_first(struct run_state *s)
{
	const char *first = port_variable(RUN_FIRST);

	if (first && strtoull(first, NULL, 10) == s->fds.pid && !s->off &&
	    run_attach(s))
		lent_connect(s->lodic);
}

void run_start(void)
{
	const char *path = port_variable(RUN_SOCKET);
	struct run_state *s;

	shim.run.watches = port_variable(RUN_DOCTOR) != NULL;
	if ((!shim.run.watches &&
	     (!path || !*path || strlen(path) >= RUN_TEXT_BYTES)) ||
	    is_filtered() || !run_threads_start())
		return;
	if (!shim.run.watches && go_in_process()) { /* U31 */
		run_report_left_alone("Go calls the kernel past libc, so the shim "
		                      "leaves this program alone");
		return;
	}
	if (!shim.run.watches) {
		strcpy(shim.leave.socket, path);
		run_leave_start(path);
	}
	s = fds_state(sizeof(*s), run_forked);
	if (!s)
		return;
	line_start();
	shim.run.reports = run_report_start();
	if (shim.run.watches && go_in_process()) { /* U31 */
		run_report_mark(SEEN_GO);
		s->off = 1;
	}
	if (fds_address_space_limited() || host_load_relaxed(&shim.run.stopped))
		s->off = 1;
	if (!shim.run.watches) {
		run_map_start();
		connect_first(s);
		run_record_start();
	}
	shim.run.state = s;
}

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Which descriptor is which file, and the reads. Rules: run.h.
 *
 * A descriptor's first read goes to the kernel. The shim only notes it, which takes the lock and
 * three short system calls. Many descriptors are read once, and a look at the file costs more.
 * The second read makes the look: fstat() finds the file's place in the table, or takes one. From
 * then on each read of the file that is not served takes a step towards that: connect, ask for
 * the file, take the answer. If the table is full, the next look comes RUN_FULL_MS later.
 *
 *   slot:  0 --first read--> SEEN --second--> LOOKING n ----> FILE, SKIP or FULL
 *          ^______________________any change of the descriptor_______|
 *
 * A file keeps its place while a descriptor leads to it, and for RUN_KEEP_NS after that. Then
 * the service gets it back, so that a deleted file's space and a mount become free. The shim has
 * no thread of its own, and so it does that in the course of some later call.
 */
#define _GNU_SOURCE
#include "preload/run_state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/client/error.h"
#include "preload/go.h"
#include "preload/line.h"
#include "preload/own.h"
#include "preload/run_environment.h"

/* How soon a sweep goes on that has found the service busy. */
#define RUN_SOON_NS 2000000u
/* What one read(2) takes at most. */
#define RUN_MOST_BYTES 0x7ffff000u

/* `lodic doctor` takes the time of one read in so many. */
#define RUN_TIMED_READS 17u

#define RUN_FULL_MS 1000u
#define NS_PER_MS 1000000u

/* Both hold a number: a time in ms, or one that is never used again. */
#define SLOT_SEEN FDS_OTHER
#define SLOT_IS_FULL ((u64)1 << FDS_INDEX_SHIFT)
#define SLOT_SHIFT (FDS_INDEX_SHIFT + 1)
#define SLOT_FULL(ms) ((ms) << SLOT_SHIFT | SLOT_IS_FULL | FDS_OTHER)
#define SLOT_LOOKING(n) ((n) << SLOT_SHIFT | FDS_OTHER)

struct run_state *run_state;
char run_socket[RUN_TEXT_BYTES];
bool run_reports;
static bool run_watches; /* for `lodic doctor`: it counts, and serves nothing */
/* For `lodic doctor`: when the read began whose time is taken; 0: it is not. */
static __thread u64 run_timed_ns;
static __thread u32 run_timed;

bool run_is_on(void)
{
	return run_state != NULL;
}

/* ---- descriptors ---- */

/* When the shim has stepped aside it also reads no clock: that is
 * a system call on some machines. */
void run_file_unnamed(struct run_state *s, struct run_file *f)
{
	if (host_fetch_add(&f->nr_fds, -(u64)1) != 1 || host_load_relaxed(&s->off))
		return;
	host_store_relaxed(&f->idle_since_ns, host_now_ns());
	host_fetch_add(&s->nr_idle, 1);
}

/* Gives back the files that nobody has had open for a while. false: the service is busy. */
static bool files_sweep(struct run_state *s, u64 now)
{
	for (u32 n = 0; n < RUN_FILES; n++) {
		struct run_file *f = &s->files[s->sweep_from];

		if (f->lent.lodic && !host_load_relaxed(&f->nr_fds)) {
			if (now - host_load_relaxed(&f->idle_since_ns) < RUN_KEEP_NS)
				host_fetch_add(&s->nr_idle, 1);
			else if (!lent_give_back(&f->lent))
				return false;
			else
				f->lent.lodic = NULL;
		}
		s->sweep_from = (s->sweep_from + 1) % RUN_FILES;
	}
	return true;
}

void run_sweep(struct run_state *s, u64 now)
{
	host_store_relaxed(&s->nr_idle, 0);
	if (readers_sweep(s, now) && files_sweep(s, now)) {
		host_store_relaxed(&s->sweep_at_ns, now + RUN_KEEP_NS);
	} else {
		host_fetch_add(&s->nr_idle, 1);
		host_store_relaxed(&s->sweep_at_ns, now + RUN_SOON_NS);
	}
}

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
	struct run_state *s = run_state;
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
	u64 top = run_state ? host_load_relaxed(&run_state->fds.top) : 0;

	for (u64 fd = first; fd <= last && fd < top; fd++)
		run_changes((int)fd);
}

/* The file's place: its own, or one that it takes over from a file that has gone. NULL: its
 * set is full. The lock is held. */
static struct run_file *file_find(struct run_state *s, const struct stat *st)
{
	u64 hash = ((u64)st->st_ino ^ (u64)st->st_dev << 32) *
	           UINT64_C(0x9e3779b97f4a7c15);
	struct run_file *set = &s->files[(hash >> 32) % RUN_SETS * RUN_SET_FILES];
	struct run_file *oldest = NULL;

	for (u32 i = 0; i < RUN_SET_FILES; i++) {
		struct run_file *f = &set[i];

		if (f->lent.name && f->lent.dev == st->st_dev &&
		    f->lent.ino == st->st_ino)
			return f;
		if (host_load_relaxed(&f->nr_fds) == 0 &&
		    (!oldest || f->idle_since_ns < oldest->idle_since_ns))
			oldest = f;
	}
	if (!oldest || !lent_give_back(&oldest->lent))
		return NULL;
	oldest->lent.lodic = NULL;
	host_store_relaxed(&oldest->locked, 0);
	host_store_relaxed(&oldest->nr_unanswered, 0);
	lent_begin(&oldest->lent, ++s->last_name, st->st_dev, st->st_ino);
	return oldest;
}

enum run_why run_fits(int fd, struct stat *ret_st)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fstat(fd, ret_st) != 0 || !S_ISREG(ret_st->st_mode))
		return RUN_NOT_REGULAR;
	if ((flags & O_ACCMODE) != O_RDONLY || flags & O_PATH)
		return RUN_WRITABLE;
	return flags & O_DIRECT ? RUN_DIRECT : RUN_SERVED;
}

/* May a look begin where this stands? Another thread may be at it, or there was no room lately. */
static bool slot_may_look(u64 slot)
{
	if ((slot & FDS_KIND) == FDS_OTHER && slot & SLOT_IS_FULL)
		return host_now_ns() / NS_PER_MS - (slot >> SLOT_SHIFT) >= RUN_FULL_MS;
	return slot == SLOT_SEEN;
}

/* Finds out what is behind fd, and fills its slot, where found stood (U12). Returns RUN_NOT_CACHED
 * for a file that may be served from now on. The lock is held. */
static enum run_why descriptor_look(struct run_state *s, int fd, u64 found)
{
	u64 looking = SLOT_LOOKING(++s->last_look);
	u64 *slot = &s->fds.slots[fd];
	struct run_file *f;
	enum run_why why;
	struct stat st;

	if (!host_cas(slot, found, looking))
		return RUN_BUSY;
	why = run_fits(fd, &st);
	if (why != RUN_SERVED) {
		host_cas(slot, looking, FDS_SKIP);
		return why;
	}
	f = file_find(s, &st);
	if (!f) {
		host_cas(slot, looking, SLOT_FULL(host_now_ns() / NS_PER_MS));
		return RUN_TABLE_FULL;
	}
	host_fetch_add(&f->nr_fds, 1);
	if (!host_cas(slot, looking, /* U12 */
	              fds_of_file(f->lent.name, (u64)(f - s->files))))
		run_file_unnamed(s, f);
	return RUN_NOT_CACHED;
}

u64 run_look(struct run_state *s, int fd)
{
	u64 *slot = &s->fds.slots[fd], found;

	fds_saw(&s->fds, fd);
	host_cas(slot, 0, SLOT_SEEN);
	found = host_load_relaxed(slot);
	if ((found & FDS_KIND) == FDS_OTHER)
		descriptor_look(s, fd, found);
	return host_load_acquire(slot);
}

void run_locks(int fd)
{
	struct run_state *s = run_state;
	struct fds_hold hold;
	u64 found;

	if (!s || (u32)fd >= FDS_NR || host_load_relaxed(&s->off) ||
	    !run_lock(s, &hold, true)) /* U17 */
		return;
	found = run_look(s, fd);
	if ((found & FDS_KIND) == FDS_FILE)
		host_store_relaxed(&run_file_of(found)->locked, 1);
	else if ((found & FDS_KIND) == FDS_OTHER)
		host_cas(&s->fds.slots[fd], found, FDS_SKIP); /* there is no room */
	run_unlock(s, &hold);
}

/* Reads of a descriptor that names no file yet. */
static enum run_why descriptor_new(struct run_state *s, int fd, u64 slot)
{
	enum run_why why = RUN_FIRST_READ;
	struct fds_hold hold;

	if (slot != 0 && !slot_may_look(slot))
		return slot & SLOT_IS_FULL ? RUN_TABLE_FULL : RUN_BUSY;
	if (!run_lock(s, &hold, false))
		return RUN_BUSY;
	if (slot != 0) {
		why = descriptor_look(s, fd, slot);
	} else {
		fds_saw(&s->fds, fd);
		host_cas(&s->fds.slots[fd], 0, SLOT_SEEN);
	}
	run_unlock(s, &hold);
	return why;
}

/* Why a descriptor is left alone: for the report. */
static enum run_why descriptor_skipped(int fd)
{
	enum run_why why = RUN_WRITABLE;
	int error = errno;
	struct stat st;

	if (run_reports && calls_begin(run_state)) {
		why = run_fits(fd, &st);
		calls_end(run_state);
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

	if ((slot & FDS_KIND) != FDS_FILE || run_watches)
		return;
	r = reader_mine(s);
	if (r && !host_load_relaxed(&r->busy)) /* U16 */
		run_step(s, r, fd, slot, m);
}

/* What the kernel must read brings the shim further. got: why the reader has not read it. */
static enum run_why read_unserved(struct run_state *s, struct run_reader *r, int fd,
                                  u64 slot, ssize_t got, const struct run_missed *m)
{
	enum run_why why = RUN_NOT_CACHED;

	if (!calls_begin(s))
		return RUN_STOPPED;
	sweep_if_due(s);
	if ((slot & FDS_KIND) != FDS_FILE) {
		why = descriptor_new(s, fd, slot);
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
static bool is_usual(const struct iovec *to, int nr, off_t offset, u64 *ret_bytes)
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
static ssize_t read_lent(struct run_state *s, struct run_reader *r, u64 slot,
                         const struct iovec *to, int nr, off_t offset, bool *ret_off)
{
	ssize_t got = -ESTALE;

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
                               const struct run_missed *m, ssize_t *ret_n)
{
	enum run_why why = read_unserved(s, r, fd, slot, -ESTALE, m);
	const struct run_file *f = run_file_of(slot);
	ssize_t got;
	bool off;

	if ((why != RUN_AWAY && why != RUN_ASKED) ||
	    host_load_relaxed(&f->lent.generation) == GENERATION_NONE)
		return why;
	got = read_lent(s, r, slot, to, nr, (off_t)m->offset, &off);
	if (got < 0)
		return got == -EAGAIN ? RUN_NOT_CACHED : why;
	*ret_n = got;
	return RUN_SERVED;
}

enum run_why run_read(int fd, const struct iovec *to, int nr, off_t offset,
                      ssize_t *ret_n)
{
	struct run_missed missed = { .offset = (u64)offset };
	struct run_state *s = run_state;
	struct run_reader *r;
	bool off, usual;
	ssize_t got;
	u64 slot;

	run_reads();
	if (!s || (u32)fd >= FDS_NR)
		return RUN_STOPPED;
	slot = host_load_acquire(&s->fds.slots[fd]);
	if (slot == FDS_SKIP)
		return descriptor_skipped(fd);
	if (host_load_relaxed(&s->off) || !host_load_relaxed(&s->fds.pid))
		return host_load_relaxed(&run_gone) ? RUN_GONE : RUN_STOPPED;
	usual = is_usual(to, nr, offset, &missed.bytes);
	if ((slot & FDS_KIND) != FDS_FILE)
		return read_unserved(s, NULL, fd, slot, 0, &missed);
	if (!usual)
		return RUN_UNUSUAL;
	if (run_watches) {
		run_timed_ns = ++run_timed % RUN_TIMED_READS ? 0 : host_now_ns();
		return host_load_relaxed(&run_file_of(slot)->locked) ? RUN_LOCKED
		                                                     : RUN_COULD;
	}
	r = reader_mine(s);
	if (!r || host_load_relaxed(&r->busy)) /* U16 */
		return RUN_BUSY;
	pthread_testcancel(); /* as pread() does */
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
	                   ? host_load_relaxed(&run_state->fds.slots[noted->fd])
	                   : 0;
	const struct run_file *f = run_file_of(slot);

	if ((slot & FDS_KIND) == FDS_FILE) {
		noted->known = true;
		noted->dev = f->lent.dev;
		noted->ino = f->lent.ino;
		if (noted->why == RUN_REFUSED && !noted->map)
			noted->error = (int)host_load_relaxed(&f->lent.reason);
		if (noted->why == RUN_REFUSED && !noted->error)
			noted->error = (int)host_load_relaxed(&run_state->refusal);
	}
	run_report_note(noted);
}

void run_note(int fd, ssize_t n, off_t offset, enum run_why why)
{
	struct run_noted noted = {
		.fd = fd, .offset = offset, .bytes = (u64)n, .why = why
	};
	int error = errno;

	if ((!run_reports && !run_records) || !run_state || n < 0 ||
	    !calls_begin(run_state))
		return;
	if (run_records)
		run_record_read(fd, (u64)n, offset);
	if (why == RUN_COULD && run_timed_ns) {
		noted.ns = host_now_ns() - run_timed_ns;
		run_timed_ns = 0;
	}
	if (run_reports)
		note(&noted);
	calls_end(run_state);
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

	if (!run_reports || !run_state || !calls_begin(run_state))
		return;
	note(&noted);
	calls_end(run_state);
	errno = error;
}

void run_note_moved(const struct run_noted *moved)
{
	struct run_noted noted = *moved;

	if (run_reports)
		run_report_note(&noted);
}

void run_may_start(void)
{
	if (run_state && unlikely(host_load_relaxed(&run_state->alone)))
		run_may_start_now();
}

void run_end(bool stderr_closing)
{
	struct fds_hold hold;

	if ((!run_reports && !run_records) || !run_state || !calls_begin(run_state))
		return;
	if (fds_lock(&run_state->fds, &hold, true)) {
		if (run_reports)
			run_report_end(stderr_closing);
		if (run_records)
			run_record_end(stderr_closing);
		fds_unlock(&run_state->fds, &hold);
	}
	calls_end(run_state);
}

/* ---- start ---- */

struct lodic *run_attach(struct run_state *s)
{
	if (!s->lodic && lent_attach(run_socket, &s->lodic) != 0)
		return NULL;
	return s->lodic;
}

/* Is this process under a seccomp filter that `lodic run` was not under? Such a filter may kill
 * a program for a system call that it does not make by itself. The question takes openat(), read()
 * and close(), which the loader has just done, too. */
static bool is_filtered(void)
{
	const char *allowed = getenv(RUN_FILTERS);
	u64 nr = line_of_status("\nSeccomp_filters:");

	if (nr == LINE_UNKNOWN && prctl(PR_GET_SECCOMP) == 0)
		nr = 0; /* no /proc */
	return !allowed || nr != strtoull(allowed, NULL, 10);
}

/* The service stays while somebody is connected. So the first program is, from its start. */
static void connect_first(struct run_state *s)
{
	const char *first = getenv(RUN_FIRST);

	if (first && strtoull(first, NULL, 10) == s->fds.pid && !s->off &&
	    run_attach(s))
		lent_connect(s->lodic);
}

__attribute__((constructor)) static void run_start(void)
{
	char *path = getenv(RUN_SOCKET);
	struct run_state *s;

	run_watches = getenv(RUN_DOCTOR) != NULL;
	if ((!run_watches && (!path || !*path || strlen(path) >= RUN_TEXT_BYTES)) ||
	    is_filtered() || !run_threads_start())
		return;
	if (!run_watches && go_in_process()) { /* U31 */
		run_report_left_alone("Go calls the kernel past libc, so the shim "
		                      "leaves this program alone");
		return;
	}
	if (!run_watches) {
		strcpy(run_socket, path);
		run_leave_start(path);
	}
	s = fds_state(sizeof(*s));
	if (!s)
		return;
	line_start();
	run_reports = run_report_start();
	if (run_watches && go_in_process()) { /* U31 */
		run_report_mark(SEEN_GO);
		s->off = 1;
	}
	if (fds_address_space_limited() || host_load_relaxed(&run_stopped))
		s->off = 1;
	if (!run_watches) {
		run_map_start();
		connect_first(s);
		run_record_start();
	}
	run_state = s;
}

__attribute__((destructor)) static void run_finish(void)
{
	run_end(false);
}

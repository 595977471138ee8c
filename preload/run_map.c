/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * mmap() of a cached file, by `lodic run --mmap` (ADR-0028).
 *
 * The program gets the kernel's mapping of another file: of the sealed memory that the service
 * has read the file into, its hold. So the kernel does all that munmap(), mremap(), mprotect(),
 * fork() or a kill do to a mapping. The shim keeps nothing of a private one. The kernel also tells
 * the service when nobody has the memory any more. A private mapping may also be written to: the
 * program's own pages are copies, as they are of the file's.
 *
 * A hold is a snapshot. What happens to the file later does not show. For MAP_PRIVATE nobody may
 * count on that; for MAP_SHARED the user must promise that it does not matter. Even so the mapping
 * goes back to the kernel soon after somebody has opened the file for writing (run_place.c).
 *
 * U20 The hold is that of the whole file. So offsets are the same in both, mremap() finds the
 *    file's next pages, and behind the last one there is SIGBUS.
 * U21 A mapping asks for its hold after the program has asked for the mapping. So it shows all
 *    that was written by a writer who had opened the file before (HD2).
 * U22 The shim keeps no descriptor of a hold: it maps, under its lock, and the descriptor goes.
 *    While it waits it has no lock and blocks no signal, because a handler may map something, or
 *    jump out. So it asks, lets the lock go, and looks for the answer every 2 ms at least. Nobody
 *    waits for a handler longer than that, also if the service is stopped.
 *
 *   the service must answer --answered--> it reads the file --read--> mapped
 *            |                                   |
 *            +---- RUN_ANSWER_NS are over        +---- the wait is over: the kernel maps the file,
 *                                                      and the hold may come later (run_place.c)
 *
 * A program maps a file once, as a rule. So mmap() waits for the service, for a moment, or for as
 * long as the user wants (--mmap-wait). If one has waited in vain, later ones wait RUN_HASTY_NS
 * only, until the service has answered.
 */
#define _GNU_SOURCE
#include "preload/run_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/client/copy.h"
#include "lib/client/error.h"
#include "preload/glob.h"
#include "preload/run_calls.h"
#include "preload/run_environment.h"
#include "preload/run_files.h"
#include "preload/run_place.h"
#include "preload/run_threads.h"

/* How long mmap() waits: for an answer, and while the service reads the file. Our choice. A busy
 * service answers in less. A program that wants one page of a large file loses no more. */
#define RUN_ANSWER_NS UINT64_C(1000000000)
#define RUN_READ_MS UINT64_C(250) /* unless the user says otherwise */
#define RUN_HASTY_NS UINT64_C(2000000)
#define RUN_FIRST_PAUSE_NS UINT64_C(50000)
#define RUN_LAST_PAUSE_NS UINT64_C(2000000)

#define NS_PER_MS UINT64_C(1000000)

/* One mmap() of the program's. */
struct run_map_try {
	struct run_mapping *mapping;
	u64 answer_ns, read_ns; /* until then it waits */
	u64 again_ns; /* the try has come to nothing, but until then another may */
	u64 turn;     /* lent_hold()'s */
	void *at;
	bool mapped;             /* the hold is, at at */
	struct port_file memory; /* the hold's */
};

bool run_maps(void)
{
	return shim.mapping.on;
}

void run_map_start(void)
{
	const char *globs = port_variable(RUN_MMAP);
	const char *wait = port_variable(RUN_MMAP_WAIT);

	shim.mapping.read_ns =
		(wait ? strtoull(wait, NULL, 10) : RUN_READ_MS) * NS_PER_MS;
	shim.mapping.on = globs && strlen(globs) < sizeof(shim.mapping.promised);
	if (shim.mapping.on)
		strcpy(shim.mapping.promised, globs);
}

/* Other mappings are the kernel's: it also knows what is wrong with them. */
static bool map_is_usual(const struct run_mapping *m)
{
	u64 page = port_page_bytes();

	return (m->protection == PORT_READ ||
	        (m->protection == (PORT_READ | PORT_WRITE) &&
	         m->kind == PORT_PRIVATE)) &&
	       m->kind && m->usual && m->bytes > 0 && m->offset >= 0 &&
	       (u64)m->offset % page == 0 &&
	       m->bytes <= (u64)INT64_MAX - (u64)m->offset;
}

/* Has the user promised that nobody changes the file behind fd while it is mapped? The lock is
 * held. */
static bool map_is_promised(int fd)
{
	char *path = shim.mapping.path;

	return port_path_of(fd, path, sizeof(shim.mapping.path)) == 0 &&
	       glob_lists(shim.mapping.promised, path);
}

/* May this mapping of what is open there be served? */
static enum run_why map_fits(const struct run_mapping *m, struct port_file *ret)
{
	u64 page = port_page_bytes(), size, end = (u64)m->offset + m->bytes;
	enum run_why why = run_fits(m->fd, ret);

	if (why != RUN_SERVED)
		return why;
	size = ret->bytes;
	if (size < COPY_LIMIT_BYTES)
		return RUN_SMALL; /* the library makes no holds of these either */
	if (end > (size + page - 1) / page * page)
		return RUN_BEYOND_END; /* it would see the file grow */
	if (m->kind == PORT_PRIVATE)
		return RUN_SERVED;
	if (!map_is_promised(m->fd))
		return RUN_SHARED;
	return run_places_full() ? RUN_TABLE_FULL : RUN_SERVED;
}

/* The memory has come (U22). */
static void map_take(void *ctx, int fd)
{
	struct run_map_try *t = ctx;
	const struct run_mapping *m = t->mapping;

	if (port_look(fd, &t->memory) != 0)
		return;
	if (m->address || m->placed)
		t->mapped = port_map(m->address, m->bytes, m->protection, m->flags, fd,
		                     (u64)m->offset, &t->at) == 0;
	else
		t->mapped = lent_map(fd, (u64)m->offset, m->bytes, m->protection,
		                     m->flags, &t->at) == 0;
}

static enum run_why map_answered(struct run_state *s, struct run_map_try *t, int err)
{
	run_is_alone(s);
	if (err != -EINPROGRESS)
		host_store_relaxed(&s->unanswered, err == -ENOTCONN);
	switch (reason_error(err)) {
	case 0: return t->mapped ? RUN_SERVED : RUN_OTHER_KIND;
	case -EINPROGRESS: t->again_ns = t->answer_ns; return RUN_ASKED;
	case -ENOTCONN: return host_load_relaxed(&s->alone) ? RUN_AWAY : RUN_ASKED;
	case -EALREADY: t->again_ns = t->read_ns; return RUN_NOT_CACHED;
	case -EFBIG:
	case -ENOSPC: return RUN_NO_ROOM;
	default: t->mapping->error = -err; return RUN_REFUSED;
	}
}

/* One step towards the mapping. The lock is held. */
static enum run_why map_step(struct run_state *s, struct run_map_try *t)
{
	struct run_mapping *m = t->mapping;
	struct lent_take take = { .take = map_take, .ctx = t, .turn = &t->turn };
	struct lodic *lodic = run_attach(s);
	struct run_file *f;
	struct port_file is;
	enum run_why why;
	u64 slot;

	if (fds_address_space_limited()) {
		run_step_aside(s);
		return RUN_STOPPED;
	}
	why = map_fits(m, &is);
	if (why != RUN_SERVED)
		return why;
	slot = run_look(s, m->fd);
	if ((slot & FDS_KIND) != FDS_FILE)
		return RUN_TABLE_FULL;
	f = run_file_of(slot);
	if (f->lent.dev != is.dev || f->lent.ino != is.ino)
		return RUN_BUSY; /* it is being closed, or was closed unseen */
	if (host_load_relaxed(&f->locked))
		return RUN_LOCKED;
	if (!lodic)
		return RUN_AWAY;
	take.bytes = is.bytes;
	why = map_answered(s, t, lent_hold(lodic, &f->lent, m->fd, &take));
	if (why == RUN_SERVED && m->kind == PORT_SHARED)
		run_place_lent(m, t->at, f, &t->memory);
	return why;
}

static enum run_why map_try(struct run_state *s, struct run_map_try *t)
{
	struct fds_hold hold;
	enum run_why why;
	u64 now;

	t->again_ns = 0;
	if (!run_lock(s, &hold, true))
		return RUN_STOPPED;
	now = host_now_ns();
	if (!t->answer_ns) {
		t->read_ns = now + shim.mapping.read_ns;
		t->answer_ns =
			now + (host_load_relaxed(&s->unanswered) ? RUN_HASTY_NS
		                                                 : RUN_ANSWER_NS);
	}
	why = map_step(s, t);
	run_unlock(s, &hold);
	return why;
}

/* Waits for a moment, without the lock. false: it has waited long enough. */
static bool map_waits(struct run_state *s, const struct run_map_try *t, u64 *pause_ns)
{
	bool waits;

	if (!t->again_ns || !calls_begin(s))
		return false;
	waits = host_now_ns() < t->again_ns;
	if (waits)
		port_sleep(*pause_ns);
	else if (t->again_ns == t->answer_ns)
		host_store_relaxed(&s->unanswered, 1);
	calls_end(s);
	if (*pause_ns < RUN_LAST_PAUSE_NS)
		*pause_ns *= 2;
	return waits;
}

enum run_why run_map(struct run_mapping *m, void **ret_at)
{
	struct run_map_try t = { .mapping = m };
	u64 pause_ns = RUN_FIRST_PAUSE_NS;
	struct run_state *s = shim.run.state;
	int error = errno;
	enum run_why why;

	if (!s || (u32)m->fd >= FDS_NR || host_load_relaxed(&s->off) ||
	    !host_load_relaxed(&s->fds.pid))
		return host_load_relaxed(&shim.run.gone) ? RUN_GONE : RUN_STOPPED;
	if (!map_is_usual(m))
		return RUN_OTHER_KIND;
	do {
		why = map_try(s, &t);
	} while (map_waits(s, &t, &pause_ns));
	*ret_at = t.at;
	errno = error;
	return why;
}

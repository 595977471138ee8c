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
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "lib/client/copy.h"
#include "lib/client/error.h"
#include "preload/glob.h"
#include "preload/own.h"
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
#define RUN_FIRST_PAUSE_NS 50000
#define RUN_LAST_PAUSE_NS 2000000

/* What changes nothing for a mapping that can only be read; and MAP_POPULATE, which the kernel
 * does there as well. */
#define USUAL_FLAGS \
	(MAP_TYPE | MAP_FIXED | MAP_FIXED_NOREPLACE | MAP_POPULATE | MAP_NONBLOCK | \
	 MAP_NORESERVE | MAP_DENYWRITE | MAP_EXECUTABLE | MAP_STACK)

#define NS_PER_MS UINT64_C(1000000)

/* One mmap() of the program's. */
struct run_map_try {
	struct run_mapping *mapping;
	u64 answer_ns, read_ns; /* until then it waits */
	u64 again_ns; /* the try has come to nothing, but until then another may */
	u64 turn;     /* lent_hold()'s */
	void *at;     /* MAP_FAILED: the hold could not be mapped */
	struct stat memory; /* the hold's */
};

bool run_maps(void)
{
	return shim.mapping.on;
}

void run_map_start(void)
{
	const char *globs = getenv(RUN_MMAP), *wait = getenv(RUN_MMAP_WAIT);

	shim.mapping.read_ns =
		(wait ? strtoull(wait, NULL, 10) : RUN_READ_MS) * NS_PER_MS;
	shim.mapping.on = globs && strlen(globs) < sizeof(shim.mapping.promised);
	if (shim.mapping.on)
		strcpy(shim.mapping.promised, globs);
}

/* Other mappings are the kernel's: it also knows what is wrong with them. */
static bool map_is_usual(const struct run_mapping *m)
{
	int type = m->flags & MAP_TYPE;
	u64 page = (u64)sysconf(_SC_PAGESIZE);

	return (m->protection == PROT_READ ||
	        (m->protection == (PROT_READ | PROT_WRITE) && type == MAP_PRIVATE)) &&
	       (type == MAP_PRIVATE || type == MAP_SHARED) &&
	       !(m->flags & ~USUAL_FLAGS) && m->bytes > 0 && m->offset >= 0 &&
	       (u64)m->offset % page == 0 &&
	       m->bytes <= (u64)INT64_MAX - (u64)m->offset;
}

/* Has the user promised that nobody changes the file behind fd while it is mapped? The lock is
 * held. */
static bool map_is_promised(int fd)
{
	char *path = shim.mapping.path;

	return fds_path(fd, path, sizeof(shim.mapping.path)) &&
	       glob_lists(shim.mapping.promised, path);
}

/* May this mapping of what is open there be served? */
static enum run_why map_fits(const struct run_mapping *m, struct stat *ret_st)
{
	u64 page = (u64)sysconf(_SC_PAGESIZE), size, end = (u64)m->offset + m->bytes;
	enum run_why why = run_fits(m->fd, ret_st);

	if (why != RUN_SERVED)
		return why;
	size = (u64)ret_st->st_size;
	if (size < COPY_LIMIT_BYTES)
		return RUN_SMALL; /* the library makes no holds of these either */
	if (end > (size + page - 1) / page * page)
		return RUN_BEYOND_END; /* it would see the file grow */
	if ((m->flags & MAP_TYPE) == MAP_PRIVATE)
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

	if (fstat(fd, &t->memory) != 0)
		return;
	if (m->address || m->flags & (MAP_FIXED | MAP_FIXED_NOREPLACE))
		t->at = own_mmap(m->address, m->bytes, m->protection, m->flags, fd,
		                 m->offset);
	else if (lent_map(fd, (u64)m->offset, m->bytes, m->protection, m->flags,
	                  &t->at) != 0)
		t->at = MAP_FAILED;
}

static enum run_why map_answered(struct run_state *s, struct run_map_try *t, int err)
{
	run_is_alone(s);
	if (err != -EINPROGRESS)
		host_store_relaxed(&s->unanswered, err == -ENOTCONN);
	switch (reason_error(err)) {
	case 0: return t->at == MAP_FAILED ? RUN_OTHER_KIND : RUN_SERVED;
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
	enum run_why why;
	struct stat st;
	u64 slot;

	if (fds_address_space_limited()) {
		run_step_aside(s);
		return RUN_STOPPED;
	}
	why = map_fits(m, &st);
	if (why != RUN_SERVED)
		return why;
	slot = run_look(s, m->fd);
	if ((slot & FDS_KIND) != FDS_FILE)
		return RUN_TABLE_FULL;
	f = run_file_of(slot);
	if (f->lent.dev != st.st_dev || f->lent.ino != st.st_ino)
		return RUN_BUSY; /* it is being closed, or was closed unseen */
	if (host_load_relaxed(&f->locked))
		return RUN_LOCKED;
	if (!lodic)
		return RUN_AWAY;
	take.bytes = (u64)st.st_size;
	why = map_answered(s, t, lent_hold(lodic, &f->lent, m->fd, &take));
	if (why == RUN_SERVED && (m->flags & MAP_TYPE) == MAP_SHARED)
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
static bool map_waits(struct run_state *s, const struct run_map_try *t,
                      struct timespec *pause)
{
	bool waits;

	if (!t->again_ns || !calls_begin(s))
		return false;
	waits = host_now_ns() < t->again_ns;
	if (waits)
		own_call(SYS_nanosleep, pause, NULL);
	else if (t->again_ns == t->answer_ns)
		host_store_relaxed(&s->unanswered, 1);
	calls_end(s);
	if (pause->tv_nsec < RUN_LAST_PAUSE_NS)
		pause->tv_nsec *= 2;
	return waits;
}

enum run_why run_map(struct run_mapping *m, void **ret_at)
{
	struct timespec pause = { .tv_nsec = RUN_FIRST_PAUSE_NS };
	struct run_map_try t = { .mapping = m, .at = MAP_FAILED };
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
	} while (map_waits(s, &t, &pause));
	*ret_at = t.at;
	errno = error;
	return why;
}

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Which descriptor is which file. Rules: run.h.
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
#include "preload/run_files.h"

#include "preload/run_calls.h"

#define RUN_FULL_MS 1000u
#define NS_PER_MS UINT64_C(1000000)

/* Both hold a number: a time in ms, or one that is never used again. */
#define SLOT_SEEN FDS_OTHER
#define SLOT_IS_FULL ((u64)1 << FDS_INDEX_SHIFT)
#define SLOT_SHIFT (FDS_INDEX_SHIFT + 1)
#define SLOT_FULL(ms) ((ms) << SLOT_SHIFT | SLOT_IS_FULL | FDS_OTHER)
#define SLOT_LOOKING(n) ((n) << SLOT_SHIFT | FDS_OTHER)

/* ---- the table ---- */

void run_file_unnamed(struct run_state *s, struct run_file *f)
{
	if (host_fetch_add(&f->nr_fds, -(u64)1) != 1 || host_load_relaxed(&s->off))
		return;
	host_store_relaxed(&f->idle_since_ns, host_now_ns());
	host_fetch_add(&s->nr_idle, 1);
}

bool files_sweep(struct run_state *s, u64 now)
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

/* The file's place: its own, or one that it takes over from a file that has gone. NULL: its
 * set is full. The lock is held. */
static struct run_file *file_find(struct run_state *s, const struct port_file *is)
{
	u64 hash = (is->ino ^ is->dev << 32) * UINT64_C(0x9e3779b97f4a7c15);
	struct run_file *set = &s->files[(hash >> 32) % RUN_SETS * RUN_SET_FILES];
	struct run_file *oldest = NULL;

	for (u32 i = 0; i < RUN_SET_FILES; i++) {
		struct run_file *f = &set[i];

		if (f->lent.name && f->lent.dev == is->dev && f->lent.ino == is->ino)
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
	lent_begin(&oldest->lent, ++s->last_name, is->dev, is->ino);
	return oldest;
}

enum run_why run_fits(int fd, struct port_file *ret)
{
	unsigned int mode;

	if (port_mode(fd, &mode) != 0 || port_look(fd, ret) != 0 ||
	    ret->kind != PORT_FILE_REGULAR)
		return RUN_NOT_REGULAR;
	if (mode & (PORT_MAY_WRITE | PORT_NAMES_ONLY))
		return RUN_WRITABLE;
	return mode & PORT_DIRECT ? RUN_DIRECT : RUN_SERVED;
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
	struct port_file is;

	if (!host_cas(slot, found, looking))
		return RUN_BUSY;
	why = run_fits(fd, &is);
	if (why != RUN_SERVED) {
		host_cas(slot, looking, FDS_SKIP);
		return why;
	}
	f = file_find(s, &is);
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
	struct run_state *s = shim.run.state;
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

enum run_why run_look_new(struct run_state *s, int fd, u64 slot)
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

/* ---- the service ---- */

u32 run_trusted(void)
{
	/* Another user has other settings, and a read reads none. */
	return port_user() == shim.leave.first_user ? shim.leave.trusted : LENT_NO_USER;
}

struct lodic *run_attach(struct run_state *s)
{
	if (s->lodic)
		return s->lodic;
	return lent_attach(shim.leave.socket, run_trusted(), &s->lodic) == 0 ? s->lodic
	                                                                     : NULL;
}

void run_is_alone(struct run_state *s)
{
	bool alone = lent_is_alone(s->lodic);

	if (alone != (bool)host_load_relaxed(&s->alone))
		host_store_relaxed(&s->alone, alone);
	if (lent_generation(s->lodic) != GENERATION_NONE)
		s->start_step_ns = 0;
}

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * How a range is read. The main thread makes the memory and hands out pieces; a worker reads a
 * piece, and unmaps it here. The last job seals the memory. So no step of the main thread grows
 * with the range.
 *
 *   begin --> piece, piece, ... --> seal --> holds_loaded()
 *               an error, or cancelled --> close ---^
 *
 * A piece of a local file comes back. One of another file may never come back: then its worker,
 * its memory and its file stay as they are. So only HOLD_PIECES_FAR such pieces are under way.
 *
 * A job has copies of what it needs, and what it writes is its own until it is done. So a worker
 * that is stuck when the service ends touches only its job and its piece of the memory.
 */
#include <errno.h>

#include "lib/huge.h"
#include "lib/port/pages.h"
#include "lib/port/reads.h"
#include "lib/reason.h"
#include "lib/service/base/worker.h"
#include "lib/service/file/direct.h"
#include "lib/service/frame/reads.h"
#include "lib/service/hold/hold_load.h"
#include "lib/service/hold/hold_tier.h"
#include "lib/service/memory/memory.h"
#include "lib/service/memory/pages.h"
#include "lib/service/hold/state.h"
#include "lib/service/base/base.h"
#include "lib/service/file/files.h"
#include "lib/service/file/held.h"
#include "lib/service/hold/holds.h"
#include "lib/service/hold/range.h"

/* Our choice: a disk takes 2 ms, so that a worker is soon free for those who open files. Two huge
 * pages at least, because the kernel waits for all CPUs once a call. */
#define PIECE_BYTES ((u64)4 << 20)
/* Pieces under way, in all, and of files whose file system may not answer. So half of the workers
 * at least are free for opens, and local files always have one piece under way. */
#define PIECES_MOST 3u
#define PIECES_FAR 2u
/* What huge pages may cost a range beyond their usual time (pages.c). */
#define HUGE_PATIENCE_NS (500 * NS_PER_MS)
#define HUGE_PATIENCE_PAGE_NS ((u64)600000)
/* A device that has just read into the memory may hold pages for a moment. The kernel waits for
 * them itself, for 0.2 s or so. Our choice: as long again, and more. */
#define SEAL_TRIES 100u
#define SEAL_PAUSE_NS (5 * NS_PER_MS)
#define SEALS (PORT_SEAL_WRITE | PORT_SEAL_SHRINK | PORT_SEAL_GROW | PORT_SEAL_SEALS)

struct hold_load {
	struct worker_job job; /* the last one */
	struct hold_loads *all;
	struct hold_load *before, *after; /* in its turns */
	struct hold_turns *turns;         /* NULL: it is not there */
	struct held_range *range;
	struct holding *owner; /* of file; another one may have taken its place since */
	struct held_file *file;
	bool far, direct, huge;
	bool looked; /* its first piece is back, so there is memory for all of it */
	bool waits;  /* for a description to be read by */
	bool ending; /* the last job is under way */
	int file_fd;
	int fd;      /* the memory */
	int kept_fd; /* the description that the service keeps */
	u8 *at;
	u64 offset; /* of the file */
	u64 bytes;  /* of memory */
	u64 length; /* of these, the file's */
	u64 next;   /* where the next piece begins */
	u64 to_come; /* what later pieces are to bring in; 0: an error, so there are none */
	u64 huge_left_ns, huge_bytes;
	u32 nr_pieces; /* under way */
	int huge_refused;
	int error;
};

struct hold_piece {
	struct worker_job job;
	struct hold_load *load;
	int fd, direct_fd;
	u8 *at;
	u64 offset; /* of the file */
	u64 bytes;  /* of memory */
	u64 length;
	bool huge;
	u64 needed; /* memory that is to come; 0: it was looked for */
	int error;
	int huge_refused;
	u64 huge_ns;
	bool cached;     /* the kernel has it in its page cache */
	bool not_direct; /* O_DIRECT does not work */
};

u32 hold_load_nr_pieces(u64 bytes)
{
	return (u32)((bytes + PIECE_BYTES - 1) / PIECE_BYTES);
}

/* ---- in a worker ---- */

/* One read. Returns how many bytes came, 0: no more there; or -errno. */
static int64_t piece_read_some(struct hold_piece *p, u64 at)
{
	u64 whole = p->length - p->length % BLOCK_BYTES;
	bool direct = p->direct_fd >= 0 && !p->cached && !p->not_direct && at < whole &&
	              at % BLOCK_BYTES == 0;
	u64 n = direct ? whole - at : p->length - at;
	int64_t got =
		port_read(direct ? p->direct_fd : p->fd, p->at + at, n, p->offset + at);

	if (got == -EINVAL && direct) {
		p->not_direct = true; /* or not in pieces of 4 KiB */
		return -EAGAIN;
	}
	/* The kernel had no page for the memory. */
	return got == -EFAULT ? -ENOMEM : got;
}

static int piece_read(struct hold_piece *p)
{
	u32 tries = READ_TRIES;
	u64 at = 0;

	/* What the page cache has is copied, as for frames (reads.c). */
	p->cached = p->direct_fd >= 0 && port_is_cached(p->fd, p->offset, p->length);
	while (at < p->length) {
		int64_t n = piece_read_some(p, at);

		/* To the program -EAGAIN would say that it has asked for too much. */
		if (n == -EAGAIN || n == -EINTR) {
			if (--tries > 0)
				continue;
			return -EIO;
		}
		if (n <= 0)
			return n ? (int)n : -EIO; /* the file ends before its size */
		at += (u64)n;
	}
	return 0;
}

static void piece_work(struct worker_job *job)
{
	struct hold_piece *p = (struct hold_piece *)job;
	u64 began = host_now_ns();
	const char *why;

	/* Otherwise the kernel would kill a process, and mostly this one. */
	if (p->needed > 0)
		p->error = memory_check_hold(p->needed, &why);
	if (p->huge && !p->error)
		p->huge_refused = pages_ask(p->at, p->bytes);
	p->huge_ns = host_now_ns() - began;
	if (!p->error)
		p->error = piece_read(p);
	if (!p->error) /* the range is in memory once more now */
		port_drop_cached(p->fd, p->offset, p->length);
	/* Here, so that the last job has no mapping of the whole range to take away. */
	if (port_unmap(p->at, p->bytes) != 0 && !p->error)
		p->error = -ENOMEM;
}

static int load_seal(int fd)
{
	u32 tries = 0;
	int err;

	while ((err = port_seal(fd, SEALS)) == -EBUSY && tries++ < SEAL_TRIES)
		port_sleep(SEAL_PAUSE_NS);
	return err;
}

/* What no piece has unmapped. */
static void load_unmap_rest(struct hold_load *load)
{
	if (load->next < load->bytes)
		port_unmap(load->at + load->next, load->bytes - load->next);
}

/* If there was an error this gives the memory back. */
static void load_close(struct hold_load *load)
{
	if (load->error)
		service_close(&load->kept_fd);
	service_close(&load->fd);
}

static void load_end_work(struct worker_job *job)
{
	struct hold_load *load = (struct hold_load *)job;

	load_unmap_rest(load);
	if (!load->error)
		load->error = load_seal(load->fd); /* HD3 */
	/* Without leases nothing tells when nobody has it: it would count for ever (HD4). */
	if (!load->error && memory_ask_own(load->kept_fd) == MEMORY_UNKNOWN)
		load->error = reason_encode(LODIC_REASON_LEASES_OFF);
	if (!load->error) /* what lay across two pieces, or was read ahead */
		port_drop_cached(load->file_fd, load->offset, load->length);
	load_close(load);
}

/* ---- the main thread ---- */

static void load_push(struct hold_load *load)
{
	struct hold_turns *t = load->waits ? &load->all->waiting
	                       : load->far ? &load->all->far
	                                   : &load->all->near;

	load->turns = t;
	load->after = NULL;
	load->before = t->last;
	*(t->last ? &t->last->after : &t->first) = load;
	t->last = load;
}

static void load_remove(struct hold_load *load)
{
	struct hold_turns *t = load->turns;

	if (!t)
		return;
	*(load->before ? &load->before->after : &t->first) = load->after;
	*(load->after ? &load->after->before : &t->last) = load->before;
	load->turns = NULL;
}

/* The user hears once why holds have small pages. */
static void load_say(struct holding *s, const struct hold_load *load)
{
	if (load->all->said || s->tables->small_pages || load->error ||
	    load->bytes < HUGE_PAGE_BYTES || load->huge_bytes > 0)
		return;
	load->all->said = true;
	service_say(s->base, SERVICE_INFO, "huge_pages",
	            "a hold of %llu MiB has no huge pages: %s",
	            (unsigned long long)(load->bytes >> 20),
	            pages_why(load->huge_refused ? load->huge_refused : EINVAL));
}

static void load_end_done(void *owner, struct worker_job *job)
{
	struct holding *s = owner;
	struct hold_load *load = (struct hold_load *)job;
	struct held_range *r = load->range;
	int error = load->error;

	load_say(s, load);
	r->load = NULL;
	r->fd = load->kept_fd;
	r->huge_bytes = load->huge_bytes;
	files_fill_ended(load->owner->files, load->file);
	port_free(load);
	holds_loaded(s, r, error);
}

static void loads_note(struct hold_loads *all, u64 bytes)
{
	all->noted += bytes;
	memory_hold_comes(bytes);
}

static void loads_forget(struct hold_loads *all, u64 bytes)
{
	all->noted -= bytes;
	memory_hold_came(bytes);
}

/* What new arenas leave to it. A file system that does not answer may keep it for ever, so there
 * only pieces under way count. */
static u64 load_noted(const struct hold_load *load)
{
	return load->far ? 0 : load->to_come;
}

/* No more pieces begin. Those under way may be stuck, and others need the memory. */
static void load_give_up(struct hold_load *load)
{
	load->all->to_come -= load->to_come;
	loads_forget(load->all, load_noted(load));
	load->to_come = 0;
}

/* Memory that the next piece is to look for. Loads that begin at once look for all of it together.
 * Arenas leave nothing to far loads, so each piece of theirs looks again for its own range. */
static u64 load_needed(const struct hold_load *load)
{
	if (load->next == 0)
		return load->all->to_come;
	return load->far ? load->to_come : 0;
}

/* No piece is under way, and none will be. */
static void load_end(struct holding *s, struct hold_load *load)
{
	load_remove(load);
	load_give_up(load);
	load->ending = true;
	worker_job_init(&load->job, WORKER_ANY, 0, OWNER_HOLDING, load_end_work,
	                load_end_done);
	if (worker_any(s->base))
		worker_do(s->base, &load->job); /* it is for no program, so it is accepted */
	else
		load->ending = false; /* holds_fini() ends it */
}

static void piece_done(void *owner, struct worker_job *job);

/* Lets a worker read the next piece. */
static int load_begin_piece(struct holding *s, struct hold_load *load)
{
	struct hold_piece *p = port_alloc(sizeof(*p));
	u64 left = load->bytes - load->next;
	u64 n = left < PIECE_BYTES ? left : PIECE_BYTES;
	u64 length = load->length - load->next;

	if (!p)
		return -ENOMEM;
	if (!hold_piece_begin(&load->range->core)) {
		port_free(p);
		return -ESTALE;
	}
	worker_job_init(&p->job, WORKER_ANY, 0, OWNER_HOLDING, piece_work, piece_done);
	p->load = load;
	p->fd = held_fd(load->file);
	p->direct_fd = load->direct ? direct_fd(load->file) : -1;
	p->at = load->at + load->next;
	p->offset = load->offset + load->next;
	p->bytes = n;
	p->needed = load_needed(load);
	p->length = length < n ? length : n;
	p->huge = load->huge && n >= HUGE_PAGE_BYTES;
	if (load->far) /* before the piece looks */
		loads_note(load->all, n);
	worker_do(s->base, &p->job); /* it is for no program, so it is accepted */
	load->to_come -= n;
	load->next += n;
	load->nr_pieces++;
	load->all->nr_pieces++;
	load->all->nr_far += load->far;
	return 0;
}

/* A piece has come back, or there is none to begin. */
static void load_check_end(struct holding *s, struct hold_load *load)
{
	if (!load->ending && hold_is_read(&load->range->core))
		load_end(s, load);
}

/* A load's turn: a piece of it, and to the end of the line. The first piece is alone, because it
 * looks whether there is memory for all of it. */
static void load_turn(struct holding *s, struct hold_load *load)
{
	load_remove(load);
	load->error = load_begin_piece(s, load);
	if (load->error) {
		hold_outdate(&load->range->core);
		load_give_up(load);
	} else if (!load->far && load->looked && load->next < load->bytes) {
		load_push(load);
	}
	load_check_end(s, load);
}

/* Begins pieces, as many as may be under way. */
static void load_run(struct holding *s, struct hold_loads *all)
{
	while (!all->stopping && all->nr_pieces < PIECES_MOST) {
		if (all->far.first && all->nr_far < PIECES_FAR)
			load_turn(s, all->far.first);
		else if (all->near.first)
			load_turn(s, all->near.first);
		else
			return;
	}
}

static void load_note_piece(struct hold_load *load, const struct hold_piece *p)
{
	load->error = load->error ? load->error : p->error;
	load->direct &= !p->not_direct;
	if (!p->huge)
		return;
	if (p->huge_refused)
		load->huge_refused = p->huge_refused;
	else
		load->huge_bytes += p->bytes - p->bytes % HUGE_PAGE_BYTES;
	if (p->huge_ns < load->huge_left_ns) {
		load->huge_left_ns -= p->huge_ns;
	} else {
		load->huge = false;
		load->huge_refused = ETIME;
	}
}

static void piece_done(void *owner, struct worker_job *job)
{
	struct holding *s = owner;
	struct hold_piece *p = (struct hold_piece *)job;
	struct hold_load *load = p->load;
	struct hold_loads *all = load->all;

	all->nr_pieces--;
	all->to_come -= p->bytes;
	loads_forget(all, p->bytes);
	all->nr_far -= load->far;
	load->nr_pieces--;
	load_note_piece(load, p);
	hold_piece_end(&load->range->core, !p->error);
	port_free(p);
	if (load->error) {
		load_remove(load);
		load_give_up(load);
	} else if ((load->far || !load->looked) && load->next < load->bytes) {
		load_push(load);
	}
	load->looked = true;
	load_check_end(s, load);
	load_run(s, all);
}

void hold_load_cancel(struct holding *s, struct hold_load *load)
{
	if (load->ending)
		return; /* the error is the last job's; hold_publish() refuses the range */
	load->error = load->error ? load->error : -ECANCELED;
	load_remove(load);
	load_give_up(load);
	load_check_end(s, load);
}

/* The memory, mapped. */
static int load_make(struct hold_load *load)
{
	u64 whole = load->huge ? load->bytes - load->bytes % HUGE_PAGE_BYTES : 0;
	void *at;
	int err;

	load->fd = port_memory_file("lodic-hold");
	if (load->fd < 0)
		return load->fd == -EMFILE ? -ENFILE : load->fd;
	if (port_set_bytes(load->fd, load->bytes) != 0)
		return -ENOMEM;
	/* Early: without /proc, or a descriptor, all the reading would be for nothing. This one
	 * stays while the lower ones of the load go, so it tells how many there are. */
	load->kept_fd = port_memory_again(load->fd, false);
	if (load->kept_fd == -ENOENT)
		return reason_encode(LODIC_REASON_NO_PROC);
	if (load->kept_fd == -EMFILE || service_is_crowded(load->kept_fd))
		return -ENFILE;
	if (load->kept_fd < 0)
		return load->kept_fd;
	err = huge_map(load->fd, load->bytes, PORT_READ | PORT_WRITE, &at);
	if (err)
		return err;
	load->at = at;
	hold_tier_bind(load->owner, load->range, load->file, at);
	port_advise(at, load->bytes, PORT_NOT_IN_DUMP);
	if (load->huge)
		port_advise(at, whole, PORT_HUGE_PAGES);
	/* A huge page at the range's end would have memory that does not count (HD5). */
	if (whole < load->bytes)
		port_advise(load->at + whole, load->bytes - whole, PORT_SMALL_PAGES);
	return 0;
}

int hold_load_begin(struct holding *s, struct hold_loads *all, struct held_range *r,
                    struct held_file *f)
{
	struct hold_load *load = port_alloc(sizeof(*load));
	enum direct_state state;
	int err;

	if (!load)
		return -ENOMEM;
	load->all = all;
	load->range = r;
	load->owner = s;
	load->file = f;
	load->file_fd = held_fd(f);
	load->far = !held_is_local(f);
	load->kept_fd = -1;
	load->offset = r->offset;
	load->bytes = r->bytes;
	load->length = r->length;
	load->huge = !s->tables->small_pages && load->bytes >= HUGE_PAGE_BYTES;
	load->huge_left_ns = HUGE_PATIENCE_NS +
	                     load->bytes / HUGE_PAGE_BYTES * HUGE_PATIENCE_PAGE_NS;
	err = load_make(load);
	if (err) {
		service_close(&load->fd);
		service_close(&load->kept_fd);
		port_free(load);
		return err;
	}
	files_fill_begun(f);
	state = direct_works(f) ? direct_want(s->files, f) : DIRECT_NONE;
	load->direct = state == DIRECT_READY;
	load->waits = state == DIRECT_COMES;
	load->to_come = load->bytes;
	all->to_come += load->bytes;
	loads_note(all, load_noted(load));
	r->load = load;
	load_push(load);
	load_run(s, all);
	return 0;
}

void hold_load_turn(struct holding *s, struct hold_loads *all)
{
	struct hold_load *load, *after;

	for (load = all->waiting.first; load; load = after) {
		enum direct_state state = direct_look(load->file);

		after = load->after;
		if (state == DIRECT_COMES)
			continue;
		load_remove(load);
		load->waits = false;
		load->direct = state == DIRECT_READY;
		load_push(load);
	}
	load_run(s, all);
}

bool hold_load_is_of(const struct hold_load *load, const struct holding *s)
{
	return load->owner == s;
}

void hold_load_abandon(struct hold_load *load)
{
	if (load->nr_pieces > 0 || load->ending)
		return; /* a worker is stuck, and may still read into it */
	load_unmap_rest(load);
	service_close(&load->fd);
	service_close(&load->kept_fd);
	port_free(load);
}

void hold_load_forget(struct hold_loads *all)
{
	loads_forget(all, all->noted);
}

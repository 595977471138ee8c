/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * See takeover.h. All of it runs before the main loop. So it may wait for the old service
 * (succession.h). Its own lease thread answers writers meanwhile.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/cache/cache.h"
#include "lib/huge.h"
#include "lib/port/inode.h"
#include "lib/service/base/socket.h"
#include "lib/service/base/worker.h"
#include "lib/service/file/files.h"
#include "lib/service/file/proof.h"
#include "lib/service/frame/evict.h"
#include "lib/service/frame/fill.h"
#include "lib/service/memory/memory.h"
#include "lib/service/succession/carry.h"
#include "lib/service/succession/succession.h"
#include "lib/service/succession/takeover.h"
#include "lib/service/tier/policy.h"
#include "lib/service/succession/whole.h"
#include "lib/service/base/base.h"
#include "lib/service/file/held.h"
#include "lib/service/file/past.h"
#include "lib/service/tier/tier.h"

/* Stuck workers count by program. These two are none: for local files, and for others. So a file
 * is not waited for after WORKERS_EACH others of its kind were late. */
#define TAKEN_LOCAL (-1)
#define TAKEN_OTHER (-4)
/* How long a file may take. Our choice. A local one answers soon, but its worker may have to wait
 * for a CPU, or for a program that looks at each file. */
#define FILE_WAIT_MS 500
#define FILE_WAIT_LOCAL_MS 2000
/* How long the new service has a file open for programs that have not come back. They try once
 * in 2 s, as long as they read. */
#define HANDED_NS (10000 * NS_PER_MS)
/* Blocks copied, or files, between two looks at signals and revoked files. */
#define LOOK_EACH 256u

struct taken_file {
	u32 id, new_id; /* FILE_NONE: it is not there */
};

struct takeover {
	struct succession old_service;
	struct shared_memory control, data, shared; /* the old one's; at alone */
	struct arena old;
	u64 alive;
	struct taken_file *files; /* by old slot */
	u8 *frames;               /* WIRE_FRAME_*, by old frame */
	struct carry_queue queues[RECLAIM_MAIN + 1];
	u32 looks;
	u64 since_ns, nr_files, had, taken;
};

/* ---- the beginning ---- */

static int takeover_map(int fd, u64 bytes, int protection, struct shared_memory *m)
{
	struct port_memory memory;
	int err;

	if (port_memory_look(fd, &memory) != 0 || memory.bytes < bytes || bytes == 0)
		return -EPROTO;
	err = huge_map(fd, bytes, protection, &m->at);
	if (!err)
		port_advise(m->at, bytes, PORT_NOT_IN_DUMP);
	m->bytes = err ? 0 : bytes;
	return err;
}

/* Maps the arena. */
static int takeover_greet(struct takeover *t)
{
	struct succession *a = &t->old_service;
	const struct wire_reply *hello = &a->page.reply;
	int err = succession_ask(a, WIRE_HAND_ARENA, 0, 0, 3);

	if (err)
		return err;
	t->alive = hello->hello.alive;
	err = takeover_map(a->fds[0], hello->hello.control_bytes, PORT_READ,
	                   &t->control);
	if (!err)
		err = takeover_map(a->fds[1], hello->hello.data_bytes, PORT_READ,
		                   &t->data);
	if (!err)
		err = takeover_map(a->fds[2], hello->hello.shared_bytes, PORT_READ,
		                   &t->shared);
	succession_close_fds(a);
	if (!err && !arena_open(&t->old, t->control.at, t->control.bytes, t->data.at,
	                        t->data.bytes, t->shared.at))
		err = -EPROTO;
	if (err)
		return err;
	t->files = port_alloc(t->old.nr_files * sizeof(*t->files));
	t->frames = port_alloc(t->old.nr_frames);
	return t->files && t->frames ? 0 : -ENOMEM;
}

static const char *takeover_why(int err)
{
	switch (err) {
	case -EPROTO: return "the other service is of another version";
	case -EBUSY:
		return "the other service is busy with a resize, or with a successor; "
		       "try again";
	case -EACCES:
		return "the other service is another user's, or its lock file cannot be "
		       "opened; start the new one as it was started";
	case -EPERM: return "the other service is another user's";
	case -EAGAIN:
	case -ETIMEDOUT: return "the other service does not answer";
	case -EADDRINUSE: return "the other service is about to end; try again";
	case -ESHUTDOWN: return "the other service was told to end, and so this one ends, too";
	case -EINTR: return "a signal came; the other service goes on";
	default: return service_why("the other service: %s", strerror(-err));
	}
}

int takeover_begin(struct service *s, struct takeover **ret_takeover,
                   const char **ret_why)
{
	struct takeover *t = port_alloc(sizeof(*t));
	int err;

	*ret_takeover = NULL;
	if (!t)
		return -ENOMEM;
	t->since_ns = host_now_ns();
	t->old_service.socket = -1;
	err = succession_begin(&t->old_service, s->base.socket_path, s->base.lock_path);
	if (!err)
		err = takeover_greet(t);
	if (err) {
		takeover_end(t);
		if (err == -ENOENT || err == -ECONNREFUSED || err == -ECONNRESET)
			return 0;
		*ret_why = takeover_why(err);
		return err;
	}
	*ret_takeover = t;
	return 0;
}

u64 takeover_cache_bytes(const struct takeover *t)
{
	return t->data.bytes - ((u64)FRAME_FIRST << BLOCK_SHIFT);
}

static void takeover_unmap(struct shared_memory *m)
{
	if (m->at)
		port_unmap(m->at, m->bytes);
}

void takeover_end(struct takeover *t)
{
	if (!t)
		return;
	succession_end(&t->old_service);
	takeover_unmap(&t->control);
	takeover_unmap(&t->data);
	takeover_unmap(&t->shared);
	port_free(t->files);
	port_free(t->frames);
	port_free(t);
}

/* ---- files ---- */

/* Does what the main loop does between its turns. -EINTR: the service shall end. */
static int takeover_look(struct service *s, struct takeover *t)
{
	if (++t->looks % LOOK_EACH != 0)
		return 0;
	files_hear(&s->files);
	return port_ready(s->signals, PORT_INPUT) == 1
	               ? -EINTR
	               : succession_stay(&t->old_service);
}

/* A worker looks at a file. */
struct takeover_job {
	struct worker_job job;
	struct service_options options;
	int fd;
	bool waited_for, done;
	struct passed_file file;
};

/* AU5: what came is a path. The kernel says here whether this process may read it. O_NONBLOCK: it
 * does not wait for another process's write lease. */
static void takeover_look_at(const struct service_options *options, int *fd,
                             struct passed_file *ret_file)
{
	int own = port_reopen_at_once(*fd, 0);

	proof_refuse(ret_file, *fd, own == -EWOULDBLOCK ? -ETXTBSY : own);
	if (own < 0)
		return;
	service_close(fd); /* a path: that waits for nobody */
	*fd = own;
	proof_look(options, fd, ret_file);
}

static void takeover_job_work(struct worker_job *job)
{
	struct takeover_job *j = (struct takeover_job *)job;

	takeover_look_at(&j->options, &j->fd, &j->file);
}

static void takeover_job_done(void *owner, struct worker_job *job)
{
	struct service *s = owner;
	struct takeover_job *j = (struct takeover_job *)job;

	j->done = true;
	if (j->waited_for)
		return;
	if (j->file.fd >= 0)
		worker_close(&s->base, j->file.fd);
	if (j->fd >= 0)
		worker_close(&s->base, j->fd);
	port_free(j);
}

/* false: it does not answer in time. */
static bool takeover_let_look(struct service *s, int fd, bool local,
                              struct passed_file *p)
{
	int wait_ms = local ? FILE_WAIT_LOCAL_MS : FILE_WAIT_MS;
	struct takeover_job *j = port_alloc(sizeof(*j));
	u64 end_ns = host_now_ns() + (u64)wait_ms * NS_PER_MS;
	bool done;

	if (!j) {
		worker_close(&s->base, fd);
		return false;
	}
	worker_job_init(&j->job, local ? WORKER_ANY : WORKER_TAKES,
	                local ? TAKEN_LOCAL : TAKEN_OTHER, OWNER_SERVICE,
	                takeover_job_work, takeover_job_done);
	j->options = s->options;
	j->fd = fd;
	j->file.fd = -1;
	j->waited_for = true;
	if (worker_do(&s->base, &j->job) != 0) {
		worker_close(&s->base, fd);
		port_free(j);
		return false;
	}
	while (!j->done && host_now_ns() < end_ns)
		if (port_wait(worker_event(&s->base), PORT_INPUT, wait_ms) == 1 &&
		    port_event_take(worker_event(&s->base)))
			worker_done(&s->base);
	done = j->done;
	j->waited_for = false;
	if (done) {
		*p = j->file;
		if (j->fd >= 0)
			worker_close(&s->base, j->fd);
		port_free(j);
	}
	return done;
}

/* Admits the file as if a program had passed it: HO2 begins here. */
static void takeover_admit(struct service *s, struct takeover *t, u32 old_slot,
                           struct passed_file *p)
{
	const struct wire_reply *r = &t->old_service.page.reply;
	struct file_past past = {
		.hits = r->hand_file.hits,
		.idle_since_ns = r->hand_file.idle_since_ns,
		.nr_opens = r->hand_file.opens > 0,
		.kept = r->hand_file.kept,
		.tier = r->hand_file.tier < NR_TIERS ? (u32)r->hand_file.tier : 0,
		.tier_said = (u32)r->hand_file.tier_said,
	};
	const struct held_file *n;
	u32 slot;

	if (files_open(&s->files, p, 0, &slot) != 0)
		return;
	n = files_at(&s->files, slot);
	if (held_size(n) == r->hand_file.size)
		t->files[old_slot] =
			(struct taken_file){ (u32)r->hand_file.id, held_id(n) };
	t->nr_files++;
	carry_past(s, slot, &past);
}

/* A file that cannot be opened now stays behind: programs pass it again. */
static int takeover_file(struct service *s, struct takeover *t, u32 slot)
{
	struct succession *a = &t->old_service;
	struct passed_file p;
	int err = succession_ask(a, WIRE_HAND_FILE, slot, 0, 1);
	int fd;

	/* No descriptor is left there: it makes room for the next one. */
	if (err == -ENOENT || err == -EMFILE || err == -ENFILE)
		return 0;
	if (err)
		return err;
	fd = a->fds[--a->nr_fds];
	if (takeover_let_look(s, fd, a->page.reply.hand_file.local, &p))
		takeover_admit(s, t, slot, &p);
	return 0;
}

static int takeover_files(struct service *s, struct takeover *t)
{
	int err = 0;

	for (u32 slot = 0; slot < t->old.nr_files && !err; slot++) {
		u64 live = host_load_relaxed(&t->old.files[slot].live);

		if (live != FILE_NONE && live != t->files[slot].id)
			err = takeover_file(s, t, slot);
		if (!err)
			err = takeover_look(s, t);
	}
	return err;
}

/* ---- blocks ---- */

/* What eviction thinks of the frames, and what stays behind. */
static int takeover_plan(struct service *s, struct takeover *t)
{
	u64 nr, at = 0;
	int err = 0;

	while (at < t->old.nr_frames && !err) {
		nr = t->old.nr_frames - at;
		nr = nr < LOOK_PAGE_BYTES ? nr : LOOK_PAGE_BYTES;
		err = succession_ask(&t->old_service, WIRE_HAND_FRAMES, at, nr, 0);
		if (err)
			break;
		memcpy(t->frames + at, t->old_service.page.records, nr);
		at += nr;
		err = takeover_look(s, t);
	}
	memset(t->queues, 0, sizeof(t->queues));
	for (u32 i = 0; i < t->old.nr_frames && !err; i++) {
		u32 visits = t->frames[i] & WIRE_FRAME_VISITS;
		u32 queue =
			t->frames[i] & WIRE_FRAME_MAIN ? RECLAIM_MAIN : RECLAIM_SMALL;

		visits = visits < FRAME_VISITS_MAX ? visits : FRAME_VISITS_MAX;
		if (t->frames[i])
			t->queues[queue].counts[visits]++;
	}
	return err;
}

static bool takeover_old_lives(const struct takeover *t)
{
	return host_load_acquire(&t->old.header->alive) == t->alive;
}

/* HO1: the look, after the copy. */
static bool takeover_vouch(const struct takeover *t, u32 slot, u32 id)
{
	return file_proof_holds(&t->old.files[slot], id) && takeover_old_lives(t);
}

/* Where the block goes: to its tier, if the old service had two. */
static u32 takeover_frame(struct service *s, const struct held_file *n, u64 block,
                          u8 frame)
{
	if (!(frame & (WIRE_FRAME_FAST | WIRE_FRAME_SLOW)))
		return policy_frame(&s->tiers, held_where(n), block_index(block));
	return policy_frame_again(&s->tiers, held_where(n), block_index(block),
	                          frame & WIRE_FRAME_SLOW ? TIER_SLOW : TIER_FAST);
}

/* Copies a block as a reader does (O1, O2), into a frame that is nobody's. */
static void takeover_copy(struct service *s, struct takeover *t, u32 frame,
                          const struct held_file *n, u64 seq, u32 old_id, u64 block)
{
	const struct frame *f = &t->old.frames[frame];
	u32 slot = files_slot(&s->files, n);
	u32 copy = takeover_frame(s, n, block, t->frames[frame]);
	u32 old_slot = (old_id - 1) % t->old.nr_files;
	bool whole;

	cache_fill_begin(&s->memory.arena, copy);
	memcpy(arena_frame_bytes(&s->memory.arena, copy),
	       arena_frame_bytes(&t->old, frame), BLOCK_BYTES);
	host_fence_acquire();
	whole = host_load_relaxed(&f->seq) == seq &&
	        takeover_vouch(t, old_slot, old_id);
	if (!whole)
		fill_publish(&s->frames, slot, copy, block, false);
	else if (fill_adopt(&s->frames, slot, copy, block,
	                    t->frames[frame] & WIRE_FRAME_MAIN ? RECLAIM_MAIN
	                                                       : RECLAIM_SMALL,
	                    t->frames[frame] & WIRE_FRAME_VISITS & FRAME_VISITS_MAX))
		t->taken++;
}

static void takeover_block(struct service *s, struct takeover *t, u32 frame)
{
	const struct frame *f = &t->old.frames[frame];
	u64 seq = host_load_acquire(&f->seq);
	u64 block = host_load_relaxed(&f->block);
	u32 id = block_file(block);
	const struct taken_file *file;
	const struct held_file *n;

	if (seq & 1 || block == BLOCK_NONE || id == FILE_NONE)
		return;
	file = &t->files[(id - 1) % t->old.nr_files];
	n = file->id == id ? files_find(&s->files, file->new_id) : NULL;
	if (!n || (u64)block_index(block) << BLOCK_SHIFT >= held_size(n))
		return;
	block = block_id(file->new_id, block_index(block));
	if (!fill_has(&s->frames, block))
		takeover_copy(s, t, frame, n, seq, id, block);
}

/* The blocks of MAIN first: there may not be room for all. */
static int takeover_blocks(struct service *s, struct takeover *t, bool again)
{
	static const struct {
		u8 mark;
		enum reclaim_queue queue;
	} order[] = { { WIRE_FRAME_MAIN, RECLAIM_MAIN },
		      { WIRE_FRAME_SMALL, RECLAIM_SMALL } };
	int err = 0;

	for (u32 i = 0; i < 2; i++) {
		struct carry_queue *q = &t->queues[order[i].queue];

		for (u32 frame = 0; frame < t->old.nr_frames && !err; frame++) {
			if (!(t->frames[frame] & order[i].mark))
				continue;
			t->had += !again;
			if (evict_nr_spare(&s->frames) == 0)
				return 0;
			if (again ||
			    !carry_leaves(q, t->frames[frame] & WIRE_FRAME_VISITS &
			                             FRAME_VISITS_MAX))
				takeover_block(s, t, frame);
			err = takeover_look(s, t);
		}
	}
	return err;
}

/* -ECONNRESET means that the old one has died. What has been copied is as good as before (HO6). */
static int takeover_round(struct service *s, struct takeover *t, bool again)
{
	int err = takeover_files(s, t);

	if (!err)
		err = takeover_plan(s, t);
	if (!err && !again)
		carry_plan(s, t->queues,
		           host_load_relaxed(&t->old.header->nr_evicted) > 0);
	if (!err)
		err = takeover_blocks(s, t, again);
	return err == -ECONNRESET ? 0 : err;
}

int takeover_cache(struct service *s, struct takeover *t, const char **ret_why)
{
	int err = takeover_round(s, t, false);

	if (!err)
		err = takeover_round(s, t, true);
	s->change.handed_until_ns = host_now_ns() + HANDED_NS;
	if (err)
		*ret_why = takeover_why(err);
	return err;
}

/* ---- the end ---- */

/* HO7. The answer to HANDED says that the old one accepts nobody any more. If none comes, the old
 * one has died, or it hears of it later. If it refuses, or cannot be told, it goes on, and keeps
 * socket and lock. */
static int takeover_settle(struct service *s, struct takeover *t)
{
	int err = succession_ask(&t->old_service, WIRE_HANDED, 0, 0, 0);

	if (err == -ECONNRESET && takeover_old_lives(t))
		err = -EADDRINUSE; /* it has hung up, or ends, and could not say so */
	if (!err || err == -ECONNRESET || err == -ETIMEDOUT)
		return 0;
	s->base.succeeded = true;
	return err;
}

/* The manager has heard that this service is the one now. The old one is the peer: it has made the
 * channel. */
static void takeover_gives_back(const struct service *s, const struct takeover *t)
{
	struct port_peer peer;

	if (s->options.events.taken_back && port_peer(t->old_service.socket, &peer) == 0)
		s->options.events.taken_back(s->options.events.say_arg, peer.pid);
}

static int takeover_take_socket(struct service *s, struct takeover *t,
                                const char **ret_why)
{
	struct succession *a = &t->old_service;
	int err = succession_ask(a, WIRE_HAND_OVER, 0, 0, 2);

	if (err) {
		*ret_why = takeover_why(err);
		return err;
	}
	s->base.lent = a->page.reply.hand_over.lent;
	err = socket_adopt(&s->base, a->fds[0], ret_why);
	if (err)
		return err;
	s->base.lock = a->fds[1];
	a->nr_fds = 0;
	if (s->options.events.taking)
		s->options.events.taking(s->options.events.say_arg);
	err = takeover_settle(s, t);
	if (err)
		*ret_why = takeover_why(err);
	if (err && err != -EADDRINUSE) /* then it ends */
		takeover_gives_back(s, t);
	return err;
}

/* HO5. */
int takeover_place(struct service *s, struct takeover *t, const char **ret_why)
{
	int err = takeover_take_socket(s, t, ret_why);

	if (err)
		return err;
	socket_sign_lock(&s->base);
	err = socket_give(&s->base);
	if (err)
		service_say(&s->base, SERVICE_WARNING, "socket",
		            "%s keeps its group and mode: %s", s->base.socket_path,
		            strerror(-err));
	service_say(&s->base, SERVICE_INFO, "took_over",
	            "took the place of the other service: %llu files, and %llu of %llu "
	            "blocks, in %llu ms",
	            (unsigned long long)t->nr_files, (unsigned long long)t->taken,
	            (unsigned long long)t->had,
	            (unsigned long long)((host_now_ns() - t->since_ns) / NS_PER_MS));
	return 0;
}

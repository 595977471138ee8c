/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The files that the service holds: how one is admitted, shared, and let go, and which
 * frames are its own. Only the main thread comes here.
 *
 * A file stays held when no client has it open any more: it is warm. It goes when a writer
 * comes, when its slot is needed, when its time is over, or early (nameless.h). Its frames then
 * become orphans, which the main loop takes back as fast as it has time. Pinned orphans stay as
 * they are, snapshots; each tick looks at them again.
 */
#include <errno.h>

#include "lib/port.h"
#include "lib/reason.h"
#include "lib/service/base/worker.h"
#include "lib/service/file/admit.h"
#include "lib/service/file/direct.h"
#include "lib/service/file/files.h"
#include "lib/service/file/lease.h"
#include "lib/service/file/pause.h"
#include "lib/service/file/proof.h"
#include "lib/service/file/refused.h"
#include "lib/service/tier/policy.h"
#include "lib/service/tier/tier.h"
#include "lib/service/file/state.h"
#include "lib/service/base/base.h"
#include "lib/service/file/held.h"

#define CHECKS_PER_TICK 256u
/* A close may free the pages of a deleted file: 2 to 3 ms for 64 MiB, and 50 us for 1. */
#define CLOSE_HERE_BYTES ((u64)1 << 20)
/* Files that the lease thread has revoked: all of them may be, if the kernel's queue was full. One
 * takes 13 us. A word of a set of slots has as many. */
#define REVOKED_PER_TURN 64u
/* Files that no client has open, and that go when descriptors have run out. Our choice. */
#define SPARE_FILES 16u

struct held_file *files_at(const struct files *s, u32 slot)
{
	return &s->slots[slot];
}

u32 files_slot(const struct files *s, const struct held_file *f)
{
	return (u32)(f - s->slots);
}

/* An id says which slot it is for, so it leads to its file without a table. */
struct held_file *files_find(struct files *s, u32 id)
{
	struct held_file *f = &s->slots[(id - 1) % s->shape->nr_files];

	return id != FILE_NONE && f->state == FILE_HELD && f->id == id ? f : NULL;
}

bool files_is_live(const struct files *s, const struct held_file *f)
{
	return f->state == FILE_HELD &&
	       file_proof_holds(&s->arena->files[files_slot(s, f)], f->id);
}

static u32 files_list_of_slot(const struct files *s, u32 slot)
{
	return s->shape->nr_frames + slot;
}

static u32 files_list_of_orphans(const struct files *s)
{
	return s->shape->nr_frames + s->shape->nr_files;
}

/* Of files that no client has open, in the order in which they were closed. */
static u32 files_list_of_idle(const struct files *s)
{
	return files_list_of_orphans(s) + 1;
}

/* Of free slots, those first that have been free for longest: so all slots' ids last equally
 * long. A slot whose ids are used up is not there. */
static u32 files_list_of_free(const struct files *s)
{
	return files_list_of_idle(s) + 1;
}

/* A slot's own entry, in the list of idle files or of free slots. */
static u32 files_entry_of_slot(const struct files *s, u32 slot)
{
	return files_list_of_free(s) + 1 + slot;
}

static struct held_file *files_of_entry(struct files *s, u32 i)
{
	return &s->slots[i - files_entry_of_slot(s, 0)];
}

static void files_list_remove(struct files *s, u32 i)
{
	struct frame_link *l = &s->links[i];

	s->links[l->older].newer = l->newer;
	s->links[l->newer].older = l->older;
	l->older = l->newer = i;
}

static void files_list_push(struct files *s, u32 list, u32 i)
{
	struct frame_link *head = &s->links[list];

	s->links[i] = (struct frame_link){ .older = head->older, .newer = list };
	s->links[head->older].newer = i;
	head->older = i;
}

void files_link_frame(struct files *s, u32 slot, u32 frame)
{
	files_list_push(s, files_list_of_slot(s, slot), frame);
	s->slots[slot].nr_frames++;
	s->slots[slot].nr_fast += tier_of(s->tiers, frame) == TIER_FAST;
}

void files_unlink_frame(struct files *s, u32 frame, u64 block)
{
	struct held_file *f = files_find(s, block_file(block));

	files_list_remove(s, frame);
	if (f) {
		f->nr_frames--;
		f->nr_fast -= tier_of(s->tiers, frame) == TIER_FAST;
	} else {
		s->nr_orphans--;
	}
}

void files_move_frame(struct files *s, struct held_file *f, u32 frame, u32 to)
{
	struct frame_link l = s->links[frame];

	s->links[l.older].newer = s->links[l.newer].older = to;
	s->links[to] = l;
	s->links[frame] = (struct frame_link){ frame, frame };
	f->nr_fast += tier_of(s->tiers, to) == TIER_FAST;
	f->nr_fast -= tier_of(s->tiers, frame) == TIER_FAST;
}

u32 files_next_frame(struct files *s, u32 slot)
{
	u32 list = files_list_of_slot(s, slot);
	u32 frame = s->links[list].newer;

	if (frame == list)
		return FRAME_NONE;
	files_list_remove(s, frame);
	files_list_push(s, list, frame);
	return frame;
}

void files_not_direct(struct files *s, struct held_file *f)
{
	if (f->state == FILE_HELD)
		s->nr_direct -= f->direct;
	f->direct = false;
}

u32 files_hit(struct files *s, u64 block, u32 visits)
{
	struct held_file *f = files_find(s, block_file(block));

	if (!f)
		return 0;
	f->hits += visits;
	return f->where.cpu;
}

/* Appends all frames of a file to the orphans, in one step. */
static void files_orphan_frames(struct files *s, struct held_file *f)
{
	struct frame_link *from = &s->links[files_list_of_slot(s, files_slot(s, f))];
	u32 to = files_list_of_orphans(s);

	if (f->nr_frames > 0) {
		s->links[from->newer].older = s->links[to].older;
		s->links[s->links[to].older].newer = from->newer;
		s->links[from->older].newer = to;
		s->links[to].older = from->older;
		from->older = from->newer = files_list_of_slot(s, files_slot(s, f));
	}
	s->nr_orphans += f->nr_frames;
	s->orphans_left = s->nr_orphans;
	f->nr_frames = f->nr_fast = 0;
}

u32 files_next_orphan(struct files *s)
{
	u32 list = files_list_of_orphans(s);
	u32 frame = s->links[list].newer;

	if (s->orphans_left == 0 || frame == list) {
		s->orphans_left = 0;
		return FRAME_NONE;
	}
	s->orphans_left--;
	files_list_remove(s, frame);
	files_list_push(s, list, frame);
	return frame;
}

/* Not every file system closes a file at once. */
static void files_close_fd(struct files *s, bool local, u64 bytes, int *fd)
{
	if (*fd >= 0 && !local)
		worker_close(s->base, *fd);
	else if (*fd >= 0 && bytes >= CLOSE_HERE_BYTES)
		worker_close_local(s->base, *fd);
	else
		service_close_file(fd);
	*fd = -1;
}

/* No client has the file open from now on; or one has again. */
static void files_idle_begin(struct files *s, struct held_file *f)
{
	f->idle_since_ns = host_now_ns();
	files_list_push(s, files_list_of_idle(s),
	                files_entry_of_slot(s, files_slot(s, f)));
}

static void files_idle_end(struct files *s, const struct held_file *f)
{
	files_list_remove(s, files_entry_of_slot(s, files_slot(s, f)));
}

/* Where the chain of held files with such numbers begins: a slot, or nr_files. */
static u32 *files_chain(const struct files *s, u64 dev, u64 ino)
{
	u64 hash = block_hash(ino ^ block_hash(dev));

	return &s->chains[(hash >> 32) * s->shape->nr_files >> 32];
}

static void files_chain_add(struct files *s, struct held_file *f)
{
	u32 *chain = files_chain(s, f->dev, f->ino);

	f->chain = *chain;
	*chain = files_slot(s, f);
}

static void files_chain_remove(struct files *s, const struct held_file *f)
{
	u32 *link = files_chain(s, f->dev, f->ino);

	while (&s->slots[*link] != f) /* a held file is in its chain */
		link = &s->slots[*link].chain;
	*link = f->chain;
}

/* Closes a retiring file's descriptors and frees its slot, once no read is under way. */
static void files_finish(struct files *s, struct held_file *f)
{
	if (f->state != FILE_RETIRING || f->nr_in_flight > 0)
		return;
	direct_forget_file(f);
	files_close_fd(s, f->local, f->size, &f->direct_fd);
	files_close_fd(s, f->local, f->size, &f->fd);
	f->state = FILE_FREE;
	if (f->next_id != FILE_NONE)
		files_list_push(s, files_list_of_free(s),
		                files_entry_of_slot(s, files_slot(s, f)));
}

/* Lets a file go: when it returns, no new read or pin believes the cache about it. */
static void files_retire(struct files *s, struct held_file *f)
{
	if (f->proof == PROOF_LEASE || s->sharing->for_group)
		lease_drop(s, files_slot(s, f));
	if (f->proof != PROOF_LEASE) /* it may have had no watch */
		file_proof_revoke(&s->arena->files[files_slot(s, f)]);
	files_orphan_frames(s, f);
	policy_retire(s->tiers, &f->where, f->nr_opens);
	if (f->nr_opens == 0)
		files_idle_end(s, f);
	files_chain_remove(s, f);
	f->state = FILE_RETIRING;
	s->nr_kept -= f->kept;
	s->nr_held--;
	s->held_blocks -= held_nr_blocks(f);
	s->nr_direct -= f->direct;
	files_finish(s, f);
}

void files_fill_begun(struct held_file *f)
{
	f->nr_in_flight++;
}

void files_fill_ended(struct files *s, struct held_file *f)
{
	if (--f->nr_in_flight == 0)
		direct_rest(s, f);
	files_finish(s, f);
}

/* The lease thread has revoked the file. */
static void files_revoked(struct files *s, struct held_file *f)
{
	static const int errors[] = { [LEASE_WRITTEN] = -ESTALE,
		                      [LEASE_RIGHTS] = -EKEYREVOKED,
		                      [LEASE_LOST] = -EOVERFLOW };
	enum lease_end why = lease_why(s, files_slot(s, f));
	char path[PROOF_PATH_BYTES];
	int err = proof_path(f->fd, path);

	s->stat->revoked += why == LEASE_WRITTEN;
	refused_note(s, err ? NULL : path, f->dev, f->ino, errors[why], true);
	if (why == LEASE_WRITTEN)
		pause_begin(s, f->dev, f->ino);
	files_retire(s, f);
}

static void files_retire_one_broken(void *ctx, u32 slot)
{
	struct files *s = ctx;
	struct held_file *f = &s->slots[slot];

	if (f->state == FILE_HELD && !files_is_live(s, f))
		files_revoked(s, f);
}

struct held_file *files_find_held(struct files *s, u64 dev, u64 ino)
{
	u32 slot = *files_chain(s, dev, ino);

	/* A chain is no longer than the files are many; one or two are usual. */
	while (slot < s->shape->nr_files &&
	       (s->slots[slot].dev != dev || s->slots[slot].ino != ino))
		slot = s->slots[slot].chain;
	return slot < s->shape->nr_files ? &s->slots[slot] : NULL;
}

/* The file that no client has open since longest ago. It passes over those that are being read,
 * of which there are few, and over slots whose ids are used up. NULL: there is none.
 * watched: one that has a watch, if it is among the first ones. */
static struct held_file *files_find_idle(struct files *s, bool watched)
{
	u32 list = files_list_of_idle(s), left = watched ? CHECKS_PER_TICK : UINT32_MAX;

	for (u32 i = s->links[list].newer; i != list && left > 0; left--) {
		struct held_file *f = files_of_entry(s, i);

		if (f->nr_in_flight == 0 && f->next_id != FILE_NONE &&
		    (!watched || f->proof == PROOF_LEASE ||
		     (s->sharing->for_group && f->local)))
			return f;
		i = s->links[i].newer;
	}
	return NULL;
}

/* Lets a file go that no client has open. false: there is none. */
static bool files_make_room(struct files *s)
{
	struct held_file *f = files_find_idle(s, false);

	if (f)
		files_retire(s, f);
	return f != NULL;
}

/* A free slot; it stays in their list until a file is admitted there. */
static struct held_file *files_find_free(struct files *s)
{
	u32 list = files_list_of_free(s);

	if (s->links[list].newer == list && !files_make_room(s))
		return NULL;
	return files_of_entry(s, s->links[list].newer);
}

/* A slot for the file that p has found. In a crowd a file that no client has open goes for it,
 * and p->fd takes its number. Else the reason: there is no slot, or no such file. */
static int files_find_room(struct files *s, struct passed_file *p, struct held_file **ret)
{
	int low;

	if (service_is_crowded(p->fd)) {
		if (!files_make_room(s))
			return reason_encode(LODIC_REASON_DESCRIPTORS);
		low = port_dup(p->fd);
		if (low >= 0) {
			files_close_fd(s, p->local, 0, &p->fd);
			p->fd = low;
		}
	}
	*ret = files_find_free(s);
	return *ret ? 0 : reason_encode(LODIC_REASON_FILES);
}

static int files_admit(struct files *s, struct held_file *f, struct passed_file *p)
{
	int err;

	f->id = f->next_id;
	err = admit_prove(s, f, p);
	if (err)
		return err;
	/* The id was shown, so it is spent, whatever follows. The last becomes FILE_NONE. */
	f->next_id = file_proof_next_id(f->id, s->shape->nr_files);
	err = admit_check(s, f, p);
	f->fd = p->fd;
	p->fd = -1;
	f->dev = p->dev;
	f->ino = p->ino;
	f->local = p->local;
	f->direct = p->direct;
	f->away = p->away;
	f->gone_round = 0;
	f->nr_opens = 0;
	f->nr_in_flight = 0;
	f->hits = 0;
	f->kept = false;
	f->order = (struct file_order){ 0 };
	policy_hold(s->tiers, &f->where, f->id, p->path, p->other != PROOF_NONE);
	f->state = FILE_HELD;
	files_list_remove(s, files_entry_of_slot(s, files_slot(s, f)));
	files_chain_add(s, f);
	s->nr_held++;
	s->held_blocks += held_nr_blocks(f);
	s->nr_direct += f->direct;
	files_idle_begin(s, f);
	service_say(s->base, SERVICE_DEBUG, "cached", "%s is cached: %s", p->path,
	            proof_name(f->proof));
	if (err)
		files_retire(s, f);
	return err;
}

/* The same. If the kernel grants no further watch, a file that no client has open gives its. */
static int files_admit_or_make_room(struct files *s, struct held_file *f,
                                    struct passed_file *p)
{
	int err = files_admit(s, f, p);
	struct held_file *idle = err == -ENOLCK ? files_find_idle(s, true) : NULL;

	if (!idle)
		return err;
	files_retire(s, idle);
	return files_admit(s, f, p);
}

static int files_find_or_admit(struct files *s, struct passed_file *p, u64 cpu,
                               u32 *ret_slot)
{
	/* The service has both open, so no other file can have their numbers meanwhile. */
	struct held_file *f = files_find_held(s, p->dev, p->ino);
	int err;

	if (f && !files_is_live(s, f)) {
		files_revoked(s, f); /* just now; the event is on its way */
		f = NULL;
	}
	if (!f) {
		err = files_find_room(s, p, &f);
		if (!err)
			err = files_admit_or_make_room(s, f, p);
		if (err)
			return err;
	}
	refused_forget(s, f->dev, f->ino);
	if (f->nr_opens++ == 0)
		files_idle_end(s, f);
	policy_open(s->tiers, &f->where, cpu);
	*ret_slot = files_slot(s, f);
	return 0;
}

int files_open(struct files *s, struct passed_file *p, u64 cpu, u32 *ret_slot)
{
	/* The program's own limit is another matter. */
	int err = p->error == -EMFILE || p->error == -ENFILE
	                  ? reason_encode(LODIC_REASON_DESCRIPTORS)
	                  : p->error;

	if (!err)
		err = files_find_or_admit(s, p, cpu, ret_slot);
	if (err)
		refused_note(s, *p->path ? p->path : NULL, p->dev, p->ino, err, false);
	files_close_fd(s, p->local, p->size, &p->fd);
	return err;
}

void files_hear(struct files *s)
{
	/* files_find_or_admit() does not rely on it: the others may wait for the next turn. */
	if (lease_each_broken(s, REVOKED_PER_TURN, files_retire_one_broken) > 0)
		lease_broken_again(s);
}

void files_close(struct files *s, u32 slot, u32 id, u32 nr)
{
	struct held_file *f = &s->slots[slot];

	if (f->state != FILE_HELD || f->id != id)
		return; /* it was retired meanwhile */
	f->nr_opens -= nr;
	policy_close(s->tiers, &f->where, nr);
	if (f->nr_opens == 0)
		files_idle_begin(s, f);
}

void files_let_go(struct files *s, u32 slot)
{
	files_retire(s, &s->slots[slot]);
}

void files_spare_descriptors(struct files *s)
{
	direct_spare_descriptors(s);
	for (u32 i = 0; i < SPARE_FILES && files_make_room(s); i++)
		;
}

void files_tick(struct files *s)
{
	u64 keep_ms =
		s->keeping->keep_ms ? s->keeping->keep_ms : SERVICE_DEFAULT_KEEP_MS;
	u64 now = host_now_ns();
	struct held_file *idle;

	direct_tick(s);
	s->orphans_left = s->nr_orphans;
	for (u32 i = 0; i < CHECKS_PER_TICK; i++) {
		idle = files_find_idle(s, false);
		if (!idle || (now - idle->idle_since_ns) / NS_PER_MS < keep_ms)
			break;
		if (idle->kept) {
			files_idle_end(s, idle); /* its time begins anew */
			files_idle_begin(s, idle);
		} else {
			files_retire(s, idle);
		}
	}
}

/* A slot has no descriptor before anything else can fail: files_fini() closes what is there. */
static struct held_file *slots_make(u32 nr_files)
{
	struct held_file *slots = port_alloc(nr_files * sizeof(*slots));

	for (u32 i = 0; slots && i < nr_files; i++)
		slots[i] = (struct held_file){ .next_id = i + 1,
			                       .fd = -1,
			                       .direct_fd = -1 };
	return slots;
}

int files_init(struct files *s)
{
	u32 nr_files = s->shape->nr_files;
	u32 nr_links = files_entry_of_slot(s, nr_files);
	u32 i;

	if (refused_init(s) != 0 || pause_init(s) != 0)
		return -ENOMEM;
	s->slots = slots_make(nr_files);
	s->chains = port_alloc(nr_files * sizeof(*s->chains));
	s->links = port_alloc(nr_links * sizeof(*s->links));
	if (!s->slots || !s->chains || !s->links)
		return -ENOMEM;
	for (i = 0; i < nr_links; i++)
		s->links[i] = (struct frame_link){ i, i };
	for (i = 0; i < nr_files; i++) {
		s->chains[i] = nr_files;
		files_list_push(s, files_list_of_free(s), files_entry_of_slot(s, i));
	}
	return 0;
}

void files_fini(struct files *s)
{
	u32 slot;

	direct_forget(s);
	for (slot = 0; s->slots && slot < s->shape->nr_files; slot++) {
		struct held_file *f = &s->slots[slot];

		/* A worker that is stuck may still read it: the process's end closes it. It also
		 * closes what is not local, as no worker is left for that. */
		if (f->nr_in_flight > 0)
			continue;
		files_close_fd(s, f->local, 0, &f->direct_fd);
		files_close_fd(s, f->local, 0, &f->fd);
	}
	port_free(s->slots);
	port_free(s->chains);
	port_free(s->links);
	refused_fini(s);
	pause_fini(s);
}

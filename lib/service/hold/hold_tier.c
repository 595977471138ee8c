/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * See hold_tier.h.
 *
 * Where a range belongs changes in more places than one. A user moves its file, a policy's knode
 * changes its state, or a CPU of another node opens the file. None of them tells of it: a look
 * goes over the table now and then, and compares. One range moves at a time.
 *
 * The main thread maps the memory, and the worker unmaps it. port_node_move() moves the pages that
 * this process alone has mapped, so the worker touches each page first. It goes by pieces, because
 * the kernel may keep this process's mappings locked for a whole call.
 */
#include <errno.h>

#include "lib/huge.h"
#include "lib/port/pages.h"
#include "lib/service/base/worker.h"
#include "lib/service/hold/hold_tier.h"
#include "lib/service/memory/nodes.h"
#include "lib/service/tier/policy.h"
#include "lib/service/tier/tier.h"
#include "lib/service/tier/where.h"
#include "lib/service/hold/state.h"
#include "lib/service/file/files.h"
#include "lib/service/file/held.h"
#include "lib/service/hold/hold_table.h"
#include "lib/service/hold/range.h"

#define PIECE_BYTES ((u64)4 << 20)
/* Ranges that a turn looks at. */
#define LOOKS_PER_TURN 4096u
/* A range that could not move waits so long, and so does one that a policy has moved: it may
 * want it back. */
#define REST_NS (1000 * NS_PER_MS)

struct hold_moving {
	struct worker_job job;
	struct holds *holds;
	struct held_range *range;
	u8 *at;
	u64 bytes;
	enum tier to;
	int node;       /* -1: there are no two */
	bool stands_in; /* and neither are these (nodes.h) */
	int error;
	u64 stop;   /* the main thread writes it */
	bool rests; /* after it has moved */
};

void hold_tier_say(const struct holding *s)
{
	if (s->holds && s->placing->replicate && *s->placing->replicate &&
	    s->nodes->nr_near < 2)
		service_say(s->base, SERVICE_INFO, "one_copy",
		            "holds have one copy each: this machine has one node with "
		            "memory and processors, so `replicate' does nothing");
}

u32 hold_tier_node(const struct holding *s, const struct held_file *f, u64 cpu)
{
	return held_where(f)->replicates ? nodes_of_cpu(s->nodes, cpu) : 0;
}

/* Where ranges of f belong. *ret_moves: those that lie elsewhere shall move. */
static enum tier hold_tier_wanted(const struct holding *s, const struct held_file *f,
                                  bool *ret_moves)
{
	*ret_moves = true;
	return tier_has_policy(s->tiers)
	               ? policy_hold_tier(s->tiers, held_where(f), ret_moves)
	               : (enum tier)held_where(f)->tier;
}

static enum tier hold_tier_of_node(const struct holding *s, u32 node)
{
	return tier_are_two(s->tiers) && tier_node(s->tiers, TIER_SLOW) == (int)node
	               ? TIER_SLOW
	               : TIER_FAST;
}

void hold_tier_bind(const struct holding *s, struct held_range *r,
                    const struct held_file *f, void *at)
{
	int node = (int)r->node;
	bool moves;

	if (held_where(f)->replicates) {
		r->tier = hold_tier_of_node(s, r->node);
	} else {
		r->tier = tier_are_two(s->tiers) ? hold_tier_wanted(s, f, &moves)
		                                 : TIER_FAST;
		node = tier_node(s->tiers, r->tier);
	}
	/* Where the kernel refuses this, it chooses. */
	if (node >= 0)
		nodes_bind(s->nodes, at, r->bytes, (u32)node);
}

void hold_tier_count(struct holds *h, const struct held_range *r, bool has)
{
	struct hold_tier_sum *sum = &h->tiers[r->tier];

	sum->nr += has ? 1 : -(u64)1;
	sum->bytes += has ? r->bytes : -r->bytes;
}

bool hold_tier_moves(const struct holds *h, const struct held_range *r)
{
	return h->moving && h->moving->range == r;
}

bool hold_tier_is_busy(const struct holding *s)
{
	return s->holds && (s->holds->moving || s->holds->look_waited);
}

void hold_tier_stop(struct holds *h)
{
	/* Relaxed: it says nothing but that. */
	if (h->moving)
		host_store_relaxed(&h->moving->stop, 1);
}

/* ---- a move, in a worker ---- */

static void moving_touch(const u8 *at, u64 bytes)
{
	for (u64 i = 0; i < bytes; i += BLOCK_BYTES)
		(void)*(const volatile u8 *)(at + i);
}

static void moving_work(struct worker_job *job)
{
	struct hold_moving *m = (struct hold_moving *)job;

	for (u64 at = 0; at < m->bytes && !host_load_relaxed(&m->stop);
	     at += PIECE_BYTES) {
		u64 n = m->bytes - at < PIECE_BYTES ? m->bytes - at : PIECE_BYTES;
		int err = 0;

		moving_touch(m->at + at, n);
		if (m->node >= 0)
			err = port_node_move(m->at + at, n, (u32)m->node);
		if (err && !m->stands_in)
			m->error = err;
	}
	port_unmap(m->at, m->bytes);
}

static void moving_done(void *owner, struct worker_job *job)
{
	struct holding *s = owner;
	struct hold_moving *m = (struct hold_moving *)job;
	struct held_range *r = m->range;
	struct holds *h = m->holds;

	(void)s;
	h->moving = NULL;
	if (m->error || m->rests)
		r->rests_until_ns = host_now_ns() + REST_NS;
	if (m->error) {
		h->tiers[m->to].refused++;
	} else {
		hold_tier_count(h, r, false);
		r->tier = m->to;
		hold_tier_count(h, r, true);
		h->tiers[m->to].came++;
	}
	port_free(m);
}

/* ---- the main thread ---- */

static int hold_tier_begin(struct holding *s, struct held_range *r, enum tier to)
{
	struct hold_moving *m = port_alloc(sizeof(*m));
	void *at;
	int err;

	if (!m)
		return -ENOMEM;
	err = huge_map_part(r->fd, 0, r->bytes, PORT_READ, PORT_SHARED, &at);
	if (err) {
		port_free(m);
		return err;
	}
	/* As of all that is shared: a core dump would take long. */
	port_advise(at, r->bytes, PORT_NOT_IN_DUMP);
	worker_job_init(&m->job, WORKER_ANY, 0, OWNER_HOLDING, moving_work, moving_done);
	m->holds = s->holds;
	m->range = r;
	m->at = at;
	m->bytes = r->bytes;
	m->to = to;
	m->node = tier_node(s->tiers, to);
	m->stands_in = s->nodes->stands_in;
	m->rests = tier_has_policy(s->tiers);
	worker_do(s->base, &m->job); /* it is for no program, so it is accepted */
	s->holds->moving = m;
	return 0;
}

/* Is r where it shall not be, and may it move? */
static bool hold_tier_misplaces(const struct holding *s, const struct held_range *r,
                                enum tier *ret_to)
{
	const struct held_file *f;
	bool moves = true;

	if (!hold_is_ready(r) || host_now_ns() < r->rests_until_ns)
		return false;
	f = files_find(s->files, r->file);
	if (!f || held_where(f)->replicates)
		return false;
	*ret_to = hold_tier_wanted(s, f, &moves);
	return moves && *ret_to != r->tier;
}

void hold_tier_look(struct holding *s, bool waited)
{
	struct holds *h = s->holds;

	if (!h || !tier_are_two(s->tiers) || (!waited && h->look_left > 0))
		return;
	h->look_left = h->nr_places;
	h->look_waited |= waited;
}

bool hold_tier_run(struct holding *s, u32 *probes)
{
	struct holds *h = s->holds;
	enum tier to;

	for (u32 looks = LOOKS_PER_TURN; h->look_left > 0 && !h->moving;
	     looks--, h->look_left--) {
		struct held_range *r = h->table[h->look_at % h->nr_places];

		if (looks == 0 || *probes == 0)
			return true;
		h->look_at++;
		if (!r || !hold_tier_misplaces(s, r, &to))
			continue;
		*probes -= r->core.had;
		if (hold_look(&r->core, hold_table_is_had, r)) {
			hold_table_note(h, r);
			continue;
		}
		hold_table_note(h, r);
		if (hold_tier_begin(s, r, to) != 0) {
			r->rests_until_ns = host_now_ns() + REST_NS;
			h->tiers[to].refused++;
		}
	}
	if (h->look_left == 0 && !h->moving)
		h->look_waited = false;
	/* What moves comes back by an event, and then the look goes on. */
	return false;
}

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * See policy.h.
 *
 * The record. With options.placing.policy_record each call of core/kloc, and each decision, is a
 * line of that file. Decisions follow from the calls alone (KL4), so the same calls give the same
 * decisions. tests/unit/test_policy.c makes them again. A line that begins with a number is a
 * decision.
 *
 *     begin POLICY FAST SLOW OBJECTS KNODES MOVES TIERS   bytes, how many at most, CPUs' tiers
 *     map KNODE INODE FLAGS   open KNODE CPU   close KNODE CPU   unlink KNODE CPU
 *     add OBJECT KNODE KEY CPU   touch OBJECT CPU   remove OBJECT
 *     tick   next   moved OBJECT RESULT
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/kloc/kloc.h"
#include "core/kloc/knode_list.h"
#include "core/cache/batch.h"
#include "lib/port.h"
#include "lib/service/tier/policy.h"
#include "lib/service/tier/policy_record.h"
#include "lib/service/tier/tier.h"
#include "lib/service/tier/state.h"
#include "lib/service/base/base.h"
#include "lib/service/tier/where.h"

/* Time passes for the policy in such steps. Our choice: a knode that nobody uses is then inactive
 * after 16 s, and visits are at most 10 s old (sweep.c). */
#define TICK_MS 1000u
/* Knodes of a CPU's list. */
#define LIST_LENGTH 32u
#define LINE_BYTES 512u /* of a record: words and numbers */

struct policy {
	struct kloc *kloc;
	u32 *objects;                 /* by frame; KLOC_NONE: it has none */
	u32 *frames;                  /* by object */
	struct policy_record *record; /* NULL: there is none, or it has ended */
	bool changed;                 /* since kloc_next() had nothing */
	u32 nr_cpus;
	/* The tier that lies on each CPU's node; all 0 where the tiers are no nodes. */
	u8 cpu_tier[NODES_MOST_CPUS];
	u64 next_tick_ns;
};

__attribute__((format(printf, 2, 3))) static void policy_note(struct policy *p,
                                                              const char *format, ...)
{
	char line[LINE_BYTES];
	va_list args;
	int n;

	p->changed = true;
	if (!p->record)
		return;
	va_start(args, format);
	n = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	policy_record_put(p->record, line, (u32)n);
}

static void policy_log(void *arg, const struct kloc_decision *d)
{
	policy_note(arg, "%llu %s %s inode=%llu key=%llu kind=%s from=%u to=%u\n",
	            (unsigned long long)d->number,
	            kloc_what_name((enum kloc_what)d->what),
	            kloc_why_name((enum kloc_why)d->why), (unsigned long long)d->inode,
	            (unsigned long long)d->key, kloc_kind_name((enum kloc_kind)d->kind),
	            d->from, d->to);
}

/* KLOC_NR_POLICIES: it is no policy of a service. */
static enum kloc_policy_id policy_named(const struct tiers *s, const char **ret_why)
{
	enum kloc_policy_id id = kloc_policy_named(s->placing->policy);

	if (id == KLOC_NR_POLICIES)
		*ret_why = service_why("there is no policy '%s'", s->placing->policy);
	else if (id == KLOC_POLICY_ORACLE)
		*ret_why = "no service knows what is used next: the oracle is for "
			   "lodic-sim";
	else if (!s->two)
		*ret_why = "a policy places blocks in two tiers: say how large the "
			   "fast one is (fast-memory)";
	else
		return id;
	return KLOC_NR_POLICIES;
}

/* Where the slow tier's node has no CPUs, all CPUs are at the fast one. */
static void policy_find_cpus(const struct tiers *s, struct policy *p)
{
	int slow = s->of[TIER_SLOW].node;

	p->nr_cpus = s->nodes->nr_cpus;
	for (u32 cpu = 0; cpu < p->nr_cpus; cpu++)
		p->cpu_tier[cpu] = slow >= 0 && s->nodes->of_cpu[cpu] == slow;
}

static struct kloc_shape policy_shape(const struct tiers *s, struct policy *p,
                                      enum kloc_policy_id id)
{
	u64 knodes = 2 * (u64)s->shape->nr_files;
	struct kloc_shape shape = {
		.capacity = { (u64)s->of[TIER_FAST].nr_frames << BLOCK_SHIFT,
		              (u64)s->of[TIER_SLOW].nr_frames << BLOCK_SHIFT },
		.nr_tiers = NR_TIERS,
		/* One that is removed while it moves keeps its number until that ends. */
		.nr_objects = s->shape->nr_frames + 2 * BATCH_FRAMES,
		/* An unlinked knode stays until its last frame has gone. */
		.nr_knodes = knodes < KNODE_LIST_MAX_KNODES ? (u32)knodes
		                                            : KNODE_LIST_MAX_KNODES,
		.nr_cpus = p->nr_cpus,
		.cpu_tier = p->cpu_tier,
		.list_length = LIST_LENGTH,
		.policy = id,
		.ops = { .arg = p, .log = policy_log },
	};

	kloc_parameters_default(id, &shape.parameters);
	shape.parameters.max_in_flight = BATCH_FRAMES;
	/* The tiers hold blocks and nothing else. */
	shape.parameters.knode_tier = KLOC_NO_TIER;
	return shape;
}

static int policy_make(struct tiers *s, struct policy *p,
                       const struct kloc_shape *shape, const char **ret_why)
{
	int err = kloc_init(shape, &p->kloc);

	if (err)
		return err;
	p->objects = port_alloc(s->shape->nr_frames * sizeof(*p->objects));
	p->frames = port_alloc(shape->nr_objects * sizeof(*p->frames));
	if (!p->objects || !p->frames)
		return -ENOMEM;
	for (u32 i = 0; i < s->shape->nr_frames; i++)
		p->objects[i] = KLOC_NONE;
	if (!s->placing->policy_record)
		return 0;
	err = policy_record_begin(s->placing->policy_record, &p->record, ret_why);
	if (err)
		return err;
	policy_note(p, "begin %s %llu %llu %u %u %u ", kloc_policy_name(shape->policy),
	            (unsigned long long)shape->capacity[0],
	            (unsigned long long)shape->capacity[1], shape->nr_objects,
	            shape->nr_knodes, shape->parameters.max_in_flight);
	for (u32 cpu = 0; cpu < p->nr_cpus; cpu++)
		policy_note(p, "%u", p->cpu_tier[cpu]);
	policy_note(p, "\n");
	return 0;
}

static bool policy_is_none(const struct tiers *s)
{
	return !s->placing->policy || !*s->placing->policy;
}

int policy_check(const struct tiers *s, const char **ret_why)
{
	return policy_is_none(s) || policy_named(s, ret_why) != KLOC_NR_POLICIES
	               ? 0
	               : -EINVAL;
}

int policy_init(struct tiers *s, const char **ret_why)
{
	struct kloc_shape shape;
	int err;

	if (policy_is_none(s))
		return 0;
	s->policy = port_alloc(sizeof(*s->policy));
	if (!s->policy)
		return -ENOMEM;
	policy_find_cpus(s, s->policy);
	shape = policy_shape(s, s->policy, kloc_policy_named(s->placing->policy));
	err = policy_make(s, s->policy, &shape, ret_why);
	if (err)
		policy_fini(s);
	return err;
}

static void policy_end_record(struct tiers *s, bool waits)
{
	struct policy *p = s->policy;
	const char *why = p->record ? policy_record_end(p->record, waits) : NULL;

	if (why)
		service_say(s->base, SERVICE_WARNING, "policy_record",
		            "%s is not complete: %s", s->placing->policy_record, why);
	else if (p->record && service_is_replaced(s->base))
		service_say(
			s->base, SERVICE_WARNING, "policy_record",
			"%s ends: the cache has another size, and a record is of one",
			s->placing->policy_record);
	p->record = NULL;
}

void policy_serves(struct tiers *s)
{
	if (s->policy && s->policy->record)
		policy_record_serve(s->policy->record);
}

void policy_fini(struct tiers *s)
{
	struct policy *p = s->policy;

	if (!p)
		return;
#ifdef LODIC_DEBUG
	if (p->kloc)
		kloc_check(p->kloc);
#endif
	policy_end_record(s, true);
	if (p->kloc)
		kloc_fini(p->kloc);
	port_free(p->objects);
	port_free(p->frames);
	port_free(p);
	s->policy = NULL;
}

/* ---- files ---- */

void policy_hold(struct tiers *s, struct tier_file *f, u32 id, const char *path,
                 bool may_copy)
{
	struct policy *p = s->policy;
	bool said;
	u32 flags;

	f->tier = tier_wanted(s, path, &said);
	f->tier_said = said ? TIER_SAID_BY_GLOB : TIER_SAID_BY_NOBODY;
	/* Also under a lease, if it would not need that. */
	f->replicates = may_copy && s->nodes->nr_near > 1 && tier_replicates(s, path);
	f->cpu = 0;
	f->knode = KLOC_NONE;
	if (!p)
		return;
	flags = !said ? 0 : f->tier == TIER_FAST ? KLOC_MAP_FAST : KLOC_MAP_SLOW;
	/* The id: no two files have one, and a file that was changed has another. */
	if (kloc_map(p->kloc, id, flags, &f->knode) != 0)
		f->knode = KLOC_NONE; /* its frames are nobody's in particular */
	else
		policy_note(p, "map %u %u %u\n", f->knode, id, flags);
}

void policy_open(struct tiers *s, struct tier_file *f, u64 cpu)
{
	f->cpu = cpu < s->nodes->nr_cpus ? (u32)cpu : 0;
	if (!s->policy || f->knode == KLOC_NONE)
		return;
	policy_note(s->policy, "open %u %u\n", f->knode, f->cpu);
	kloc_open(s->policy->kloc, f->knode, f->cpu);
}

void policy_close(struct tiers *s, const struct tier_file *f, u32 nr)
{
	if (!s->policy || f->knode == KLOC_NONE)
		return;
	for (; nr > 0; nr--) {
		policy_note(s->policy, "close %u %u\n", f->knode, f->cpu);
		kloc_close(s->policy->kloc, f->knode, f->cpu);
	}
}

void policy_retire(struct tiers *s, struct tier_file *f, u32 nr_opens)
{
	if (!s->policy || f->knode == KLOC_NONE)
		return;
	/* Nobody tells of closes that come after this. */
	policy_close(s, f, nr_opens);
	policy_note(s->policy, "unlink %u %u\n", f->knode, f->cpu);
	kloc_unlink(s->policy->kloc, f->knode, f->cpu);
	f->knode = KLOC_NONE;
}

enum look_knode policy_knode(const struct tiers *s, const struct tier_file *f)
{
	struct kloc_knode_stat stat;
	u32 knode = f->knode - 1; /* the one before; before the first is KLOC_NONE */

	if (!s->policy || f->knode == KLOC_NONE ||
	    !kloc_next_knode(s->policy->kloc, &knode, &stat) || knode != f->knode)
		return LOOK_KNODE_NONE;
	return stat.state == KLOC_ACTIVE ? LOOK_KNODE_ACTIVE : LOOK_KNODE_INACTIVE;
}

enum tier policy_hold_tier(const struct tiers *s, const struct tier_file *f,
                           bool *ret_moves)
{
	return (enum tier)kloc_wished(s->policy->kloc, f->knode, KLOC_HOLD, f->cpu,
	                              ret_moves);
}

/* ---- frames ---- */

u32 policy_frame(struct tiers *s, const struct tier_file *f, u64 index)
{
	struct policy *p = s->policy;
	struct kloc_new new_object = { .key = index << BLOCK_SHIFT,
		                       .kind = KLOC_FRAME,
		                       .bytes = (u32)BLOCK_BYTES,
		                       .cpu = f->cpu };
	u32 object, tier, frame;

	if (!p)
		return tier_pop(s, (enum tier)f->tier);
	new_object.knode = f->knode;
	if (kloc_add(p->kloc, &new_object, &object, &tier) != 0)
		return tier_pop(s, TIER_SLOW);
	policy_note(p, "add %u %u %llu %u\n", object, f->knode,
	            (unsigned long long)new_object.key, f->cpu);
	/* all-fast believes in a fast tier without a limit. */
	frame = tier_pop(s, (enum tier)tier);
	p->objects[frame] = object;
	p->frames[object] = frame;
	return frame;
}

u32 policy_frame_again(struct tiers *s, const struct tier_file *f, u64 index,
                       enum tier old)
{
	if (s->policy || f->tier_said == TIER_SAID_BY_GLOB)
		return policy_frame(s, f, index);
	return tier_pop(s, old);
}

void policy_stays(struct tiers *s, struct tier_file *f, enum tier_sayer said,
                  enum tier tier)
{
	if (!s->two || s->policy || said != TIER_SAID_BY_USER)
		return;
	f->tier = tier;
	f->tier_said = said;
}

void policy_free(struct tiers *s, u32 frame)
{
	struct policy *p = s->policy;

	if (p && p->objects[frame] != KLOC_NONE) {
		policy_note(p, "remove %u\n", p->objects[frame]);
		kloc_remove(p->kloc, p->objects[frame]);
		p->objects[frame] = KLOC_NONE;
	}
	tier_push(s, frame);
}

void policy_visit(struct tiers *s, u32 frame, u32 cpu)
{
	struct policy *p = s->policy;

	if (!p || p->objects[frame] == KLOC_NONE)
		return;
	policy_note(p, "touch %u %u\n", p->objects[frame], cpu);
	kloc_touch(p->kloc, p->objects[frame], cpu);
}

void policy_tick(struct tiers *s)
{
	struct policy *p = s->policy;
	u64 now = host_now_ns();

	if (!p || now < p->next_tick_ns)
		return;
	p->next_tick_ns = now + (s->placing->policy_tick_ms ? s->placing->policy_tick_ms
	                                                    : TICK_MS) *
	                                NS_PER_MS;
	policy_note(p, "tick\n");
	kloc_tick(p->kloc);
	if (p->record && policy_record_tick(p->record))
		policy_end_record(s, false);
}

/* ---- moves ---- */

bool policy_next(struct tiers *s, struct policy_move *ret_move)
{
	struct policy *p = s->policy;
	struct kloc_move m;

	while (p->changed) {
		policy_note(p, "next\n");
		if (!kloc_next(p->kloc, &m)) {
			p->changed = false;
			return false;
		}
		if (m.what != KLOC_COPY && m.what != KLOC_DROP)
			break;
		/* A block stands in one frame here. */
		policy_moved(s, m.object, POLICY_NO_ROOM);
	}
	if (!p->changed)
		return false;
	ret_move->object = m.object;
	ret_move->frame = p->frames[m.object];
	ret_move->to = (enum tier)m.to;
	return true;
}

void policy_moved(struct tiers *s, u32 object, enum policy_result result)
{
	static const enum kloc_result results[] = { [POLICY_MOVED] = KLOC_MOVED,
		                                    [POLICY_BUSY] = KLOC_BUSY,
		                                    [POLICY_NO_ROOM] = KLOC_NO_ROOM };

	policy_note(s->policy, "moved %u %u\n", object, results[result]);
	kloc_moved(s->policy->kloc, object, results[result]);
}

void policy_follow(struct tiers *s, u32 source, u32 target)
{
	struct policy *p = s->policy;

	if (!p || p->objects[source] == KLOC_NONE)
		return;
	p->objects[target] = p->objects[source];
	p->frames[p->objects[target]] = target;
	p->objects[source] = KLOC_NONE;
}

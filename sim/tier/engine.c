/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* One run of the tier simulator: sim/tier/engine.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "host/sim/sim.h"
#include "sim/tier/engine_state.h"
#include "sim/tier/future.h"

#define LINE_BYTES 64u
/* Knodes in a list of a CPU: KLOCs s.7.1 has less than 800 KB for all lists. */
#define LIST_LENGTH 32u
#define MOVES_AT_ONCE 512u
#define MOST_OBJECTS (1u << 28)
#define SPARE_OBJECTS 8192u
#define USUAL_KNODES (1u << 18)
#define OBJECTS_A_KNODE 32u /* on a larger machine */
/* What core/kloc needs at most for an object or a knode, with trees and the oracle's heap. It is
 * address space, and memory only as far as it is used. */
#define OBJECT_BYTES 256u
#define KNODE_BYTES 1024u

/* Between two turns: the kernel's threads copy what core/kloc wants, as far as their time goes.
 * Concurrent copies share the fixed cost; parallel ones share the copying. */
static void engine_move(struct engine *e)
{
	const struct cost_machine *m = &e->options->cost->machine;
	const struct kloc_parameters *p = kloc_parameters_of(e->kloc);
	u32 most = e->options->one_by_one ? 1 : p->max_in_flight;
	double fixed = most > 1 ? m->move_batch_ns : m->move_ns;
	struct kloc_move moves[MOVES_AT_ONCE];
	u32 nr, i;

	if (most > MOVES_AT_ONCE)
		most = MOVES_AT_ONCE;
	do {
		for (nr = 0; nr < most && e->work_ns > 0; nr++) {
			const struct kloc_move *move = &moves[nr];
			const struct engine_object *o;

			if (!kloc_next(e->kloc, &moves[nr]))
				break;
			o = &e->objects[move->object];
			if (move->what == KLOC_DROP)
				continue;
			e->work_ns -=
				fixed + charge_copy(&e->charge, move->from, move->to,
			                            o->bytes, p->copy_threads);
			/* Only programs' pages are mapped, so only they are shot down. */
			if (o->kind == KLOC_APP)
				charge_compute(&e->charge, m->shootdown_ns);
			e->result->moved[o->kind][move->what]++;
		}
		for (i = 0; i < nr; i++)
			kloc_moved(e->kloc, moves[i].object, KLOC_MOVED);
	} while (nr > 0 && e->work_ns > 0);
}

/* A turn has lasted a tick. What it wanted of the index is charged to the next one. */
static void engine_turn(struct engine *e)
{
	const struct cost_machine *m = &e->options->cost->machine;
	double ns = charge_turn(&e->charge);
	struct kloc_stat now;

	/* What took the movers longer than they had is taken off their next turn. */
	e->work_ns = (e->work_ns < 0 ? e->work_ns : 0) + ns;
	/* What uses have asked for goes first: a tick forgets it. A thread of its own scans then,
	 * and does not scan more than it has time for. */
	engine_move(e);
	kloc_tick(e->kloc);
	engine_move(e);
	kloc_stat(e->kloc, &now);
	charge_kernel(&e->charge,
	              (double)(now.tree_visits - e->last.tree_visits) * m->walk_ns);
	e->last = now;
}

static void engine_count_reuse(struct engine *e, struct engine_object *o)
{
	const struct engine_file *f = engine_file(e, o->file);
	u32 opening;

	if (o->kind != KLOC_FRAME || !f || f->nr_opens == 0)
		return;
	/* Uses before the measured part are forgotten. */
	opening = f->opening << 1 | e->is_measured;
	e->result->open_uses++;
	if (o->opening != opening)
		e->result->open_frames++;
	o->opening = opening;
}

static void engine_touch(struct engine *e, const struct tier_event *event, u32 cpu,
                         u32 object)
{
	struct engine_result *r = e->result;
	u32 tier = kloc_touch(e->kloc, object, cpu);
	bool write = event->op == TIER_WRITE;

	e->objects[object].was_used = true;
	engine_count_reuse(e, &e->objects[object]);
	charge_touch(&e->charge, cpu, tier, object, event->kind, event->bytes, write);
	r->touched[event->kind] += event->bytes;
	r->lines[event->kind] += (event->bytes + LINE_BYTES - 1) / LINE_BYTES;
	if (tier == KLOC_SLOW)
		r->slow_touched[event->kind] += event->bytes;
}

/* A reader that goes forward: the frame so far ahead is about to be asked for. */
static void engine_readahead(struct engine *e, const struct tier_event *event, u32 cpu)
{
	struct engine_file *f = engine_file(e, event->file);
	u32 object;

	if (!f)
		return;
	if (event->index == f->last_frame + 1) {
		object = engine_find(e, event->file, KLOC_FRAME,
		                     event->index + e->options->prefetch);
		if (object != KLOC_NONE)
			kloc_prefetch(e->kloc, object, cpu);
	}
	f->last_frame = event->index;
}

/* A frame that a trace touches and that is not there is read, or begins. */
static void engine_access(struct engine *e, const struct tier_event *event, u32 cpu)
{
	u32 object = engine_find(e, event->file, event->kind, event->index);

	if (event->kind == KLOC_FRAME) {
		charge_kernel(&e->charge, e->options->cost->machine.syscall_ns);
		if (e->options->prefetch && event->op == TIER_READ)
			engine_readahead(e, event, cpu);
	}
	if (object == KLOC_NONE) {
		struct tier_event add = *event;
		const struct engine_file *f = engine_file(e, event->file);

		if (event->file && (!f || f->knode == KNODE_NONE_YET))
			return; /* it was unlinked */
		if (event->kind != KLOC_FRAME && event->kind != KLOC_APP)
			return;
		add.bytes = 4096;
		object = engine_add(e, &add, cpu, false);
		if (object == KLOC_NONE) {
			e->result->failed++;
			return;
		}
		charge_kernel(&e->charge, e->options->cost->machine.large_add_ns);
		if (event->op == TIER_READ && event->kind == KLOC_FRAME) {
			charge_storage(&e->charge, add.bytes);
			e->result->missed++;
		}
	}
	engine_touch(e, event, cpu, object);
}

static void engine_gone(struct engine *e, struct engine_file *f, u32 cpu)
{
	engine_remove_all(e, f);
	if (engine_knode(f) != KLOC_NONE)
		kloc_unlink(e->kloc, engine_knode(f), cpu);
	f->knode = KNODE_NONE_YET;
}

static int engine_of_file(struct engine *e, const struct tier_event *event, u32 cpu)
{
	struct engine_file *f = engine_file(e, event->file);

	if (!f)
		return -ENOMEM;
	/* It was unlinked: a trace may name it again by mistake. */
	if (!event->file || f->knode == KNODE_NONE_YET)
		return 0;
	charge_kernel(&e->charge, e->options->cost->machine.open_ns / 2.0);
	if (event->op == TIER_OPEN) {
		if (f->nr_opens++ == 0)
			f->opening++;
		if (engine_knode(f) != KLOC_NONE)
			kloc_open(e->kloc, engine_knode(f), cpu);
	} else if (event->op == TIER_UNLINK) {
		f->is_unlinked = true;
	} else if (f->nr_opens > 0) {
		f->nr_opens--;
		if (engine_knode(f) != KLOC_NONE)
			kloc_close(e->kloc, engine_knode(f), cpu);
	}
	if (f->is_unlinked && f->nr_opens == 0)
		engine_gone(e, f, cpu);
	return 0;
}

static void engine_begin_adding(struct engine *e, const struct tier_event *event,
                                u32 cpu)
{
	const struct cost_machine *m = &e->options->cost->machine;
	bool large = kloc_class_of(event->kind) == KLOC_LARGE;

	if (event->file && (!engine_file(e, event->file) ||
	                    engine_file(e, event->file)->knode == KNODE_NONE_YET))
		return;
	if (engine_find(e, event->file, event->kind, event->index) != KLOC_NONE)
		return;
	charge_kernel(&e->charge, large ? m->large_add_ns : m->small_add_ns);
	/* A packet is a call of its own: its head comes first. */
	if (event->kind == KLOC_SOCKET && event->index % 2 == 0)
		charge_kernel(&e->charge, m->syscall_ns);
	if (engine_add(e, event, cpu, false) == KLOC_NONE)
		e->result->failed++;
}

/* The tasks are pushed to the other node; what runs there from now on is measured. */
static void engine_begin_measuring(struct engine *e)
{
	struct engine_result fresh = { .ns = 0 };
	u32 cpu, i;

	engine_turn(e);
	memcpy(fresh.live_at_begin, e->live, sizeof(e->live));
	*e->result = fresh;
	e->is_measured = true;
	kloc_stat(e->kloc, &e->last);
	e->result->list_hits = e->last.list_hits;
	e->result->list_misses = e->last.list_misses;
	e->result->tree_walks = e->last.tree_walks;
	e->result->tree_visits = e->last.tree_visits;
	e->result->scanned = e->last.scanned;
	e->result->ns = e->charge.now;
	for (i = 0; i < CHARGE_NR; i++)
		e->charge.bound[i] = 0;
	e->charge.cache_hits = e->charge.cache_misses = 0;
	if (!e->options->nodes)
		return;
	e->task_cpus = e->source->nr_cpus;
	for (cpu = 0; cpu < e->source->nr_cpus; cpu++)
		kloc_task_moved(e->kloc, cpu, cpu + e->task_cpus);
}

static int engine_event(struct engine *e, const struct tier_event *event)
{
	u32 cpu = event->cpu + e->task_cpus, object;

	e->result->events++;
	switch ((enum tier_op)event->op) {
	case TIER_OPEN:
	case TIER_CLOSE:
	case TIER_UNLINK: return engine_of_file(e, event, cpu);
	case TIER_ADD: engine_begin_adding(e, event, cpu); break;
	case TIER_READ:
	case TIER_WRITE: engine_access(e, event, cpu); break;
	case TIER_REMOVE:
		object = engine_find(e, event->file, event->kind, event->index);
		if (object != KLOC_NONE)
			engine_remove(e, object);
		break;
	case TIER_COMPUTE:
		if (!e->options->memory_only)
			charge_compute(&e->charge, event->bytes);
		break;
	case TIER_TASK:
		kloc_task_moved(e->kloc, cpu, event->index + e->task_cpus);
		break;
	case TIER_MEASURE: engine_begin_measuring(e); break;
	case TIER_NR_OPS: break;
	}
	if (charge_elapsed(&e->charge) >= e->tick_ns)
		engine_turn(e);
	return 0;
}

static u64 engine_next_use(void *arg, u32 object, u64 key)
{
	const struct engine *e = arg;
	const struct engine_object *o = &e->objects[object];
	const struct tier_event *adding = e->adding;

	(void)key;
	/* core/kloc asks before it has told which number the new object has. */
	if (adding)
		return future_next_use(e->source, adding->file, adding->kind,
		                       adding->index);
	return future_next_use(e->source, o->file, o->kind, o->index);
}

static void engine_log(void *arg, const struct kloc_decision *d)
{
	const struct engine *e = arg;

	fprintf(e->options->log,
	        "%" PRIu64 " %s %s inode=%" PRIu64 " key=%" PRIu64
	        " kind=%s from=%u to=%u\n",
	        d->number, kloc_what_name(d->what), kloc_why_name(d->why), d->inode,
	        d->key, kloc_kind_name(d->kind), d->from, d->to);
}

static void engine_parameters(const struct engine *e, struct kloc_parameters *p)
{
	const struct engine_options *o = e->options;
	const struct cost_machine *m = &o->cost->machine;

	kloc_parameters_default(o->policy, p);
	if (o->kinds)
		p->kinds = o->kinds;
	p->segment_bytes = o->segment_bytes;
	p->trees = o->trees;
	p->kernel_place = o->in_slow ? KLOC_KERNEL_SLOW : KLOC_KERNEL_FAST;
	if (o->lazy)
		p->eager = false;
	if (o->piecemeal)
		p->promote_whole = false;
	if (o->one_by_one)
		p->max_in_flight = 1;
	/* What one CPU scans in a tick, half of it in each tier. */
	p->scan = (u32)(e->tick_ns * m->scan_percent / 100 / m->scan_ns / COST_TIERS);
	if (p->scan == 0)
		p->scan = 1;
}

bool engine_memory(u64 nr_objects, u64 nr_knodes)
{
	return sim_memory(nr_objects * OBJECT_BYTES + nr_knodes * KNODE_BYTES);
}

static int engine_start(struct engine *e)
{
	const struct engine_options *o = e->options;
	const struct cost_machine *m = &o->cost->machine;
	u32 nr_cpus = e->source->nr_cpus, tier, cpu;
	u8 cpu_tier[2 * TIER_MAX_CPUS] = { 0 };
	struct kloc_shape shape = {
		.nr_tiers = COST_TIERS,
		.nr_cpus = o->nodes ? 2 * nr_cpus : nr_cpus,
		.list_length = LIST_LENGTH,
		.policy = o->policy,
		.ops = { .arg = e },
	};
	u64 all = 0;
	int err;

	for (tier = 0; tier < COST_TIERS; tier++) {
		shape.capacity[tier] = ((u64)m->capacity_mib[tier] << 20) / o->scale;
		if (tier == KLOC_FAST && o->fast_bytes)
			shape.capacity[tier] = o->fast_bytes;
		if (tier == KLOC_SLOW && o->slow_bytes)
			shape.capacity[tier] = o->slow_bytes;
		all += shape.capacity[tier];
	}
	for (cpu = nr_cpus; cpu < 2 * nr_cpus; cpu++)
		cpu_tier[cpu] = 1;
	shape.cpu_tier = cpu_tier;
	/* As many small objects as frames would be more than any workload has. */
	shape.nr_objects =
		(u32)(all / 4096 * 2 < MOST_OBJECTS ? all / 4096 * 2 : MOST_OBJECTS) +
		SPARE_OBJECTS;
	shape.nr_knodes = shape.nr_objects / OBJECTS_A_KNODE;
	if (shape.nr_knodes < USUAL_KNODES)
		shape.nr_knodes = USUAL_KNODES;
	if (shape.nr_knodes > shape.nr_objects)
		shape.nr_knodes = shape.nr_objects;
	engine_parameters(e, &shape.parameters);
	if (o->log)
		shape.ops.log = engine_log;
	if (o->policy == KLOC_POLICY_ORACLE)
		shape.ops.next_use = engine_next_use;
	err = engine_objects_begin(e, shape.nr_objects);
	if (err)
		return err;
	/* core/ takes its memory from the simulated machine's. Outside of a simulated task, that
	 * machine charges nothing. */
	if (!engine_memory(shape.nr_objects, shape.nr_knodes))
		return -ENOMEM;
	sim_begin(&(struct sim_machine){ .nr_sockets = 1, .cpus_per_socket = 1 },
	          o->seed);
	return kloc_init(&shape, &e->kloc);
}

static void engine_finish(struct engine *e)
{
	struct engine_result *r = e->result;
	struct kloc_tier_stat tier_stat;
	struct kloc_stat stat;
	u32 tier;

	engine_turn(e);
	if (e->options->check)
		kloc_check(e->kloc);
	kloc_stat(e->kloc, &stat);
	kloc_cost(e->kloc, &r->cost);
	r->parameters = *kloc_parameters_of(e->kloc);
	r->ns = e->charge.now - r->ns;
	memcpy(r->bound, e->charge.bound, sizeof(r->bound));
	memcpy(r->live_at_end, e->live, sizeof(e->live));
	r->list_hits = stat.list_hits - r->list_hits;
	r->list_misses = stat.list_misses - r->list_misses;
	r->tree_walks = stat.tree_walks - r->tree_walks;
	r->tree_visits = stat.tree_visits - r->tree_visits;
	r->scanned = stat.scanned - r->scanned;
	r->cache_hits = e->charge.cache_hits;
	r->cache_misses = e->charge.cache_misses;
	r->retained = stat.retained;
	r->peak_objects = stat.peak_objects;
	r->peak_knodes = stat.peak_knodes;
	for (tier = 0; tier < COST_TIERS; tier++) {
		kloc_tier_stat(e->kloc, tier, &tier_stat);
		r->used[tier] = tier_stat.used;
		r->capacity[tier] = tier_stat.capacity;
	}
}

int engine_run(struct tier_source *source, const struct engine_options *options,
               struct engine_result *ret_result)
{
	struct engine e = { .options = options,
		            .source = source,
		            .result = ret_result };
	struct tier_event event;
	bool any = false;
	int err, got = 0;

	memset(ret_result, 0, sizeof(*ret_result));
	e.tick_ns = options->cost->machine.tick_us * 1000.0 / options->scale;
	err = charge_begin(&e.charge, &options->cost->machine, options->scale,
	                   source->nr_cpus_busy,
	                   options->memory_only ? 0 : source->os_percent,
	                   options->nodes ? source->nr_cpus : 0);
	if (!err)
		err = engine_start(&e);
	while (!err && (got = source->next(source, &event)) > 0) {
		any = true;
		err = engine_event(&e, &event);
	}
	if (!err && got < 0)
		err = got;
	if (!err && !any) {
		fprintf(stderr, "lodic-sim: %s: there is no event in it\n",
		        source->name);
		err = got = -EINVAL;
	}
	if (!err)
		engine_finish(&e);
	else if (err == -ENOMEM)
		fprintf(stderr,
		        "lodic-sim: tier: no memory; a larger --scale needs less\n");
	else if (got >= 0) /* otherwise the source has said so */
		fprintf(stderr, "lodic-sim: tier: %s\n", strerror(-err));
	if (e.kloc)
		kloc_fini(e.kloc);
	engine_objects_end(&e);
	charge_end(&e.charge);
	return err;
}

u64 engine_moved(const struct engine_result *r, enum kloc_what what)
{
	u64 sum = 0;
	u32 kind;

	for (kind = 0; kind < KLOC_NR_KINDS; kind++)
		sum += r->moved[kind][what];
	return sum;
}

u64 engine_placed_slow(const struct engine_result *r)
{
	u64 sum = 0;
	u32 kind;

	for (kind = 0; kind < KLOC_NR_KINDS; kind++)
		sum += r->placed_slow[kind];
	return sum;
}

u64 engine_metadata_bytes(const struct engine_result *r)
{
	return r->cost.peak_bytes;
}

double engine_reuse(const struct engine_result *r)
{
	return r->open_frames ? (double)r->open_uses / (double)r->open_frames : 0;
}

u64 engine_small_objects(const struct engine_result *r)
{
	u64 sum = 0;
	u32 kind;

	for (kind = 0; kind < KLOC_NR_KINDS; kind++)
		if (kloc_class_of(kind) == KLOC_SMALL)
			sum += r->added[kind];
	return sum;
}

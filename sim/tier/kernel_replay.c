/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The kernel's calls, once more: sim/tier/kernel_replay.h.
 *
 * An input asks for decisions: they wait in the knode's queue, and the next lines about it must be
 * they. Lines of other knodes may come between. Time and need act without an input. The replay
 * judges such a decision when it comes. At the end of a tick no knode may be left that had to age.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/tier/kernel_replay.h"
#include "sim/tier/kernel_trace.h"
#include "sim/tier/table.h"

#define MOST_WANTS 4u
#define WANT_BYTES 64u

/* A decision that the next lines must tell. */
struct want {
	enum kernel_decision what;
	enum kloc_why why;
};

struct follow {
	u32 knode;
	u32 nr_wants;
	struct want wants[MOST_WANTS];
	u64 line; /* which asked for them */
	struct knode_life life;
	u8 nr_moves;
	bool plans; /* the last of them tells the pages, and those ask for work */
};

struct replay {
	struct kernel_trace trace;
	struct kernel_result result;
	struct life_rules rules, tick_rules; /* now, and at the last tick */
	u32 tick;
	bool has_rules;
	struct table table; /* knode -> its place in follows */
	struct follow *follows;
	u32 nr, room;
};

static struct follow *follow_of(const struct replay *r, u32 knode)
{
	const struct table_entry *entry = table_find(&r->table, knode, 0, 0);

	return entry ? &r->follows[entry->value] : NULL;
}

static int follow_begin(struct replay *r)
{
	struct table_entry *entry;

	if (follow_of(r, r->trace.knode))
		return kernel_trace_wrong(&r->trace, "this knode is there already");
	if (r->nr == r->room) {
		u32 room = r->room ? r->room * 2 : 64;
		struct follow *more = realloc(r->follows, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		r->follows = more;
		r->room = room;
	}
	entry = table_insert(&r->table, r->trace.knode, 0, 0);
	if (!entry)
		return -ENOMEM;
	entry->value = r->nr;
	r->follows[r->nr] = (struct follow){ .knode = r->trace.knode,
		                             .life = { .last_use = r->trace.now } };
	life_begin(&r->follows[r->nr++].life);
	r->result.nr_knodes++;
	return 0;
}

static void follow_end(struct replay *r, struct follow *f)
{
	struct follow *last = &r->follows[--r->nr];

	table_erase(&r->table, table_find(&r->table, f->knode, 0, 0));
	if (f == last)
		return;
	table_find(&r->table, last->knode, 0, 0)->value = (u32)(f - r->follows);
	*f = *last;
}

static void want(struct replay *r, struct follow *f, enum kernel_decision what,
                 enum kloc_why why)
{
	f->line = r->trace.line;
	f->wants[f->nr_wants++] = (struct want){ what, why };
}

/* ---- what is not the same ---- */

static int differs(const struct replay *r, const char *ours)
{
	fprintf(stderr,
	        "lodic-sim: %s: line %" PRIu64
	        " has\n    %s\nand the same calls of core/kloc give\n    %s\n",
	        r->trace.path, r->trace.line, r->trace.said, ours);
	return -EINVAL;
}

static int differs_from(const struct replay *r, const struct want *w)
{
	char ours[WANT_BYTES];

	snprintf(ours, sizeof(ours), "what=%s why=%s", kernel_decision_name(w->what),
	         kloc_why_name(w->why));
	return differs(r, ours);
}

/* All that the knode's last input asked for must be there by now. */
static int all_told(const struct replay *r, const struct follow *f)
{
	if (!f->nr_wants)
		return 0;
	fprintf(stderr,
	        "lodic-sim: %s: line %" PRIu64
	        " asks for what=%s why=%s of knode %u: no "
	        "line up to %" PRIu64 " has it\n",
	        r->trace.path, f->line, kernel_decision_name(f->wants[0].what),
	        kloc_why_name(f->wants[0].why), f->knode, r->trace.line);
	return -EINVAL;
}

/* ---- inputs ---- */

/* What a change of a life asks the kernel to tell. */
static void changed(struct replay *r, struct follow *f, enum life_change change)
{
	struct knode_life *l = &f->life;

	if (change == LIFE_CLOSED)
		change = life_deactivate(l, KLOC_BY_STATE);
	if (change == LIFE_SAME || (change == LIFE_ENDED && l->state == KLOC_UNLINKED))
		return;
	if (change == LIFE_ACTIVATED)
		want(r, f, DECISION_ACTIVATE, (enum kloc_why)l->why);
	else if (change == LIFE_DEACTIVATED || l->state == KLOC_ACTIVE)
		want(r, f, DECISION_DEACTIVATE, (enum kloc_why)l->why);
	if (change == LIFE_ENDED) {
		life_end(l);
		want(r, f, DECISION_END, (enum kloc_why)l->why);
	}
	f->plans = true;
}

/* The pages are known: is there work? A counter may have something against it. */
static void plan(struct replay *r, struct follow *f)
{
	const struct kernel_trace *t = &r->trace;
	enum kloc_work work = life_work(&f->life, &r->rules, t->fast, t->slow);
	enum kloc_why why = life_why(&f->life, work);
	u32 idle = t->now - f->life.last_use;

	f->plans = false;
	if (work == WORK_PROMOTE)
		want(r, f, DECISION_PROMOTE, why);
	if (work != WORK_DEMOTE)
		return;
	switch (life_stay(&f->nr_moves, &r->rules, idle, why)) {
	case LIFE_STAYS: want(r, f, DECISION_KEEP, KLOC_BY_COUNTER); return;
	case LIFE_FORGIVEN: want(r, f, DECISION_FORGIVE, KLOC_BY_COUNTER); break;
	default: break;
	}
	want(r, f, DECISION_DEMOTE, why);
}

static int opens_agree(const struct replay *r, const struct follow *f)
{
	return r->trace.n == f->life.nr_opens
	               ? 0
	               : kernel_trace_wrong(&r->trace,
	                                    "n= is not how often it is open now");
}

static int input_of(struct replay *r, struct follow *f)
{
	const struct kernel_trace *t = &r->trace;
	struct knode_life *l = &f->life;

	switch (t->what) {
	case INPUT_OPEN:
		life_open(l);
		changed(r, f, life_use(l, true, t->now));
		return opens_agree(r, f);
	case INPUT_CLOSE:
		if (l->nr_opens == 0)
			return kernel_trace_wrong(t, "more closes than opens");
		changed(r, f, life_close(l));
		return opens_agree(r, f);
	case INPUT_USE: changed(r, f, life_use(l, l->nr_opens > 0, t->now)); return 0;
	case INPUT_UNLINK: changed(r, f, life_unlink(l)); return 0;
	case INPUT_MOVED:
		if (life_moved(&f->nr_moves, &r->rules))
			want(r, f, DECISION_RETAIN, KLOC_BY_COUNTER);
		return 0;
	default: follow_end(r, f); return 0;
	}
}

/* A tick is over: did all age that had to? */
static int all_aged(const struct replay *r)
{
	u32 i;

	for (i = 0; i < r->nr; i++) {
		const struct follow *f = &r->follows[i];

		if (!life_is_old(&f->life, &r->tick_rules, r->tick))
			continue;
		fprintf(stderr,
		        "lodic-sim: %s: line %" PRIu64
		        ": tick %u has ended, and knode %u is still active; its last use "
		        "was at tick %u, and the limit is %u\n",
		        r->trace.path, r->trace.line, r->tick, f->knode,
		        f->life.last_use, r->tick_rules.age_limit);
		return -EINVAL;
	}
	return 0;
}

static int input_tick(struct replay *r)
{
	int err = all_aged(r);

	if (err)
		return err;
	if (r->trace.now != r->tick + 1)
		return kernel_trace_wrong(&r->trace, "a tick is missing before it");
	r->tick = r->trace.now;
	r->tick_rules = r->rules;
	return 0;
}

/* The first ones also say what time it is: the replay begins there. */
static void rules(struct replay *r)
{
	r->rules = r->trace.rules;
	if (r->has_rules)
		return;
	r->has_rules = true;
	r->tick = r->trace.now;
	r->tick_rules = r->rules;
}

static int input(struct replay *r)
{
	bool is_new = r->trace.what == INPUT_NEW, is_tick = r->trace.what == INPUT_TICK;
	struct follow *f = follow_of(r, r->trace.knode);
	int err;

	if (!r->has_rules || (!f && !is_new && !is_tick)) {
		r->result.nr_left_out++;
		return 0;
	}
	r->result.nr_inputs++;
	if (is_tick)
		return input_tick(r);
	if (is_new)
		return follow_begin(r);
	err = all_told(r, f);
	return err ? err : input_of(r, f);
}

/* ---- decisions ---- */

/* Does need or time allow what the kernel did of itself? Then it is as an input that asks for the
 * line which tells it. */
static int unasked(struct replay *r, struct follow *f)
{
	const struct kernel_trace *t = &r->trace;
	bool needs = t->why == KLOC_BY_NEED || t->why == KLOC_BY_LIMIT;
	struct knode_life *l = &f->life;

	if (t->what == DECISION_DEACTIVATE && t->why == KLOC_BY_AGE &&
	    life_is_old(l, &r->rules, t->now)) {
		changed(r, f, life_deactivate(l, KLOC_BY_AGE));
		return 0;
	}
	if (needs && (t->what == DECISION_DEACTIVATE || t->what == DECISION_DEMOTE) &&
	    l->state != KLOC_UNLINKED && life_may_give(l, t->why, t->now) &&
	    life_take(l, t->now)) {
		changed(r, f, life_deactivate(l, t->why));
		if (!f->nr_wants)
			plan(r, f);
	}
	return f->nr_wants ? 0 : differs(r, "no decision");
}

/* Where a new page goes: only what is not placed fast is told. */
static int placed(const struct replay *r, const struct follow *f)
{
	struct want w = { .what = DECISION_PLACE };
	bool is_fast = life_place(&f->life, &w.why);

	if (is_fast)
		w.why = KLOC_FULL;
	return w.why == r->trace.why ? 0 : differs_from(r, &w);
}

static int decision(struct replay *r)
{
	struct follow *f = follow_of(r, r->trace.knode);
	struct want w;
	int err = 0;

	if (!f) {
		r->result.nr_left_out++;
		return 0;
	}
	r->result.nr_decisions++;
	if (r->trace.what == DECISION_PLACE)
		return placed(r, f);
	if (!f->nr_wants)
		err = unasked(r, f);
	if (err)
		return err;
	w = f->wants[0];
	if (w.what != r->trace.what || w.why != r->trace.why)
		return differs_from(r, &w);
	f->nr_wants--;
	memmove(f->wants, f->wants + 1, f->nr_wants * sizeof(w));
	if (!f->nr_wants && f->plans)
		plan(r, f);
	return 0;
}

static int replay_all(struct replay *r)
{
	int got, err = 0;
	u32 i;

	while (!err && (got = kernel_trace_next(&r->trace)) != 0) {
		if (got < 0)
			return got;
		switch (r->trace.event) {
		case KERNEL_RULES: rules(r); break;
		case KERNEL_INPUT: err = input(r); break;
		default: err = decision(r); break;
		}
	}
	for (i = 0; !err && i < r->nr; i++)
		err = all_told(r, &r->follows[i]);
	if (!err && !r->has_rules && r->result.nr_left_out)
		err = kernel_trace_wrong(&r->trace,
		                         "no line of kloc_rules: switch the events "
		                         "on, then write a setting");
	else if (!err && !r->result.nr_inputs)
		err = kernel_trace_wrong(
			&r->trace, "neither a record of `lodic serve "
				   "--policy-record' nor events of kloc of tracefs");
	return err;
}

int kernel_replay(const char *path, struct kernel_result *ret_result)
{
	struct replay r = { .nr = 0 };
	int err = kernel_trace_open(path, &r.trace);

	if (err)
		return err;
	err = table_begin(&r.table);
	if (!err) {
		err = replay_all(&r);
		table_end(&r.table);
	}
	if (err == -ENOMEM)
		kernel_trace_wrong(&r.trace, strerror(ENOMEM));
	memcpy(r.result.policy, r.trace.policy, sizeof(r.result.policy));
	*ret_result = r.result;
	free(r.follows);
	kernel_trace_close(&r.trace);
	return err;
}

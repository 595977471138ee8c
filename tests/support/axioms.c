/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The axioms, as relations between the events of one execution. A candidate execution says which
 * store each load reads (rf), and in which order the stores of a word come (co). All candidates are
 * tried. The letters are those of the papers.
 */
#include "tests/support/axioms.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define EVENTS (LITMUS_TASKS * LITMUS_STEPS * 3u) /* an RMW is three, with its fences */
#define INIT EVENTS /* the value that a word has at first */
#define BIT(e) ((u64)1 << (e))
struct relation {
	u64 to[EVENTS]; /* by event: a bit for each that it leads to */
};

static struct execution {
	u32 nr;
	struct event {
		u32 task, cas; /* a fence that a cas has only if it is made; or INIT */
		struct litmus_step step;
	} events[EVENTS];
	u32 reads_from[EVENTS];
	/* Sets of events. Fences beside an RMW are full, and it releases and acquires itself. */
	u64 all, R, W, rmw, acquires, releases, dependent;
	u64 fence_full, fence_acquire, fence_release;
	struct relation id, same_task, same_word;
	struct relation po, po_loc, rf, co, fr;
	struct axioms_outcomes *outcomes;
} x;

/* The first event of a set from e on, or EVENTS. */
static u32 next(u64 set, u32 e)
{
	set = set >> e << e;
	return set ? (u32)__builtin_ctzll(set) : EVENTS;
}

/* ---- relations ---- */

static struct relation either(struct relation a, struct relation b)
{
	for (u32 i = 0; i < x.nr; i++)
		a.to[i] |= b.to[i];
	return a;
}

/* a, and then b: a semicolon in the papers. */
static struct relation then(struct relation a, struct relation b)
{
	struct relation r = { { 0 } };

	for (u32 i = 0; i < x.nr; i++)
		for (u32 e = next(a.to[i], 0); e < EVENTS; e = next(a.to[i], e + 1))
			r.to[i] |= b.to[e];
	return r;
}

/* r, from one set to another: the papers' [from] r [to]. */
static struct relation only(u64 from, struct relation r, u64 to)
{
	for (u32 i = 0; i < x.nr; i++)
		r.to[i] &= from & BIT(i) ? to : 0;
	return r;
}

static struct relation without(struct relation a, struct relation b)
{
	for (u32 i = 0; i < x.nr; i++)
		a.to[i] &= ~b.to[i];
	return a;
}

static struct relation closure(struct relation r)
{
	for (u32 k = 0; k < x.nr; k++)
		for (u32 i = 0; i < x.nr; i++)
			if (r.to[i] & BIT(k))
				r.to[i] |= r.to[k];
	return r;
}

static bool is_irreflexive(struct relation r)
{
	for (u32 i = 0; i < x.nr; i++)
		if (r.to[i] & BIT(i))
			return false;
	return true;
}

static bool is_acyclic(struct relation r)
{
	return is_irreflexive(closure(r));
}

/* ---- the models ---- */

static struct relation communication(void)
{
	return either(x.rf, either(x.co, x.fr));
}

static struct relation external(struct relation r)
{
	return without(r, x.same_task);
}

/* Before a full fence, and after it: ordered by way of the fence. */
static struct relation fenced(void)
{
	return either(only(x.all, x.po, x.fence_full), only(x.fence_full, x.po, x.all));
}

/* Stores behind a release fence, and release stores, after all stores before them. */
static struct relation stores_released(void)
{
	return either(only(x.W, x.po, x.releases),
	              then(only(x.W, x.po, x.fence_release), only(x.all, x.po, x.W)));
}

static bool is_sc(void)
{
	return is_acyclic(either(x.po, communication()));
}

/* Loads come in order, and so does what is behind them. stores: in which order those come. */
static bool is_buffered(struct relation stores)
{
	struct relation ppo = either(only(x.R, x.po, x.all), stores);

	return is_acyclic(either(either(ppo, fenced()),
	                         either(external(x.rf), either(x.co, x.fr))));
}

static bool is_tso(void)
{
	return is_buffered(only(x.W, x.po, x.W));
}

static bool is_pso(void)
{
	return is_buffered(either(only(x.W, x.po_loc, x.W), stores_released()));
}

static bool is_armv8(void)
{
	struct relation obs = external(communication());
	struct relation dob = only(x.R, x.po, x.dependent);
	struct relation released = only(x.all, x.po, x.releases);
	struct relation bob = fenced();
	struct relation no_early_store = only(x.R, x.po, x.W);

	bob = either(bob, then(only(x.R, x.po, x.fence_acquire), x.po));
	bob = either(bob, only(x.acquires, x.po, x.all));
	bob = either(bob, either(stores_released(), released));
	bob = either(bob,
	             then(released, only(x.all, without(x.co, external(x.co)), x.all)));
	return is_acyclic(either(either(obs, dob), either(bob, no_early_store)));
}

static bool is_rc11(void)
{
	struct relation rs = then(only(x.W, either(x.id, x.po_loc), x.W),
	                          either(x.id, closure(only(x.all, x.rf, x.rmw))));
	struct relation release =
		either(only(x.releases | x.rmw, x.id, x.all),
	               only(x.fence_release | x.fence_full, x.po, x.W));
	struct relation acquire =
		either(only(x.acquires | x.rmw, x.id, x.all),
	               only(x.R, x.po, x.fence_acquire | x.fence_full));
	struct relation sw = then(then(release, rs), then(x.rf, acquire));
	struct relation hb = closure(either(x.po, sw));
	struct relation eco = closure(communication());
	struct relation hb_eco = then(hb, eco);
	struct relation psc =
		only(x.fence_full, either(hb, then(hb_eco, hb)), x.fence_full);

	return is_irreflexive(hb) && is_irreflexive(hb_eco) && is_acyclic(psc);
}

/* What all of them have: coherence, and nothing between an RMW's load and its store. */
static bool is_coherent(void)
{
	return is_acyclic(either(x.po_loc, communication())) &&
	       is_irreflexive(then(x.fr, x.co));
}

/* ---- values ---- */

static u64 value_written(u32 e);

static u64 value_read(u32 e)
{
	return x.reads_from[e] == INIT ? 0 : value_written(x.reads_from[e]);
}

static u64 value_written(u32 e)
{
	const struct litmus_step *s = &x.events[e].step;

	if (s->kind == LITMUS_CAS_FROM)
		return LITMUS_CAS;
	return s->kind == LITMUS_ADD ? value_read(e) + s->number : s->number;
}

static bool is_made(u32 cas)
{
	return value_read(cas) == x.events[cas].step.number;
}

static u64 outcome_of(void)
{
	u64 outcome = 0;

	for (u32 w = next(x.W, 0); w < EVENTS; w = next(x.W, w + 1))
		if (!x.co.to[w])
			outcome |= litmus_word(x.events[w].step.word, value_written(w));
	for (u32 r = next(x.R, 0); r < EVENTS; r = next(x.R, r + 1)) {
		const struct litmus_step *s = &x.events[r].step;

		if (s->reg == LITMUS_NO_REGISTER)
			continue;
		outcome |= litmus_register(s->reg, s->kind == LITMUS_CAS_FROM
		                                           ? is_made(r)
		                                           : value_read(r));
	}
	return outcome;
}

/* ---- all executions ---- */

struct axioms_outcome *axioms_find(struct axioms_outcomes *o, u64 outcome)
{
	for (u32 i = 0; i < o->nr; i++)
		if (o->of[i].outcome == outcome)
			return &o->of[i];
	return NULL;
}

static void judge(void)
{
	static bool (*const models[])(void) = { is_sc, is_tso, is_pso, is_armv8,
		                                is_rc11 };
	struct axioms_outcome one = { 0 }, *known;

	for (u32 r = 0; r < x.nr; r++)
		x.fr.to[r] = x.R & BIT(r) ? (x.reads_from[r] == INIT
		                                     ? x.W & x.same_word.to[r]
		                                     : x.co.to[x.reads_from[r]]) &
		                                    ~BIT(r)
		                          : 0;
	if (!is_coherent())
		return;
	one.outcome = outcome_of();
	known = axioms_find(x.outcomes, one.outcome);
	one.may = known ? known->may : 0;
	for (u32 m = 0; m < AXIOMS_NR; m++)
		if (!(one.may & BIT(m)) && models[m]())
			one.may |= 1u << m;
	if (known) {
		known->may = one.may;
	} else if (one.may) {
		assert_true(x.outcomes->nr < AXIOMS_MAX);
		x.outcomes->of[x.outcomes->nr++] = one;
	}
}

/* left: stores whose place in co is still open. */
static void choose_co(u64 left)
{
	u64 of_word;

	if (!left) {
		judge();
		return;
	}
	of_word = left & x.same_word.to[__builtin_ctzll(left)];
	for (u32 w = next(of_word, 0); w < EVENTS; w = next(of_word, w + 1)) {
		struct relation before = x.co;
		bool is_first = true;

		for (u32 other = next(of_word, 0); other < EVENTS;
		     other = next(of_word, other + 1))
			is_first = is_first && !(x.po.to[other] & BIT(w));
		if (!is_first)
			continue;
		for (u32 placed = next(x.W & ~left & x.same_word.to[w], 0);
		     placed < EVENTS;
		     placed = next(x.W & ~left & x.same_word.to[w], placed + 1))
			x.co.to[placed] |= BIT(w);
		choose_co(left & ~BIT(w));
		x.co = before;
	}
}

/* All loads have what they read: which cas are made follows. */
static void settle(void)
{
	u64 R = x.R, full = x.fence_full, W = x.W, rmw = x.rmw;

	memset(&x.rf, 0, sizeof(x.rf));
	for (u32 r = next(R, 0); r < EVENTS; r = next(R, r + 1))
		if (x.reads_from[r] != INIT)
			x.rf.to[x.reads_from[r]] |= BIT(r);
	/* Nothing out of thin air; no model here lets a store go before a load. */
	if (!is_acyclic(either(x.po, x.rf)))
		return;
	for (u32 e = next(x.all, 0); e < EVENTS; e = next(x.all, e + 1))
		if (x.events[e].cas != INIT && !is_made(x.events[e].cas)) {
			x.fence_full &= ~BIT(e);
			x.W &= ~BIT(x.events[e].cas);
			x.rmw &= x.W;
		}
	for (u32 e = next(W & ~x.W, 0); e < EVENTS; e = next(W & ~x.W, e + 1))
		if (x.rf.to[e])
			goto out;
	choose_co(x.W);
out:
	x.fence_full = full;
	x.W = W;
	x.rmw = rmw;
}

static void choose_rf(u64 left)
{
	u32 r;

	if (!left) {
		settle();
		return;
	}
	r = (u32)__builtin_ctzll(left);
	left &= left - 1;
	x.reads_from[r] = INIT;
	choose_rf(left);
	for (u32 w = next(x.W & x.same_word.to[r] & ~BIT(r) & ~x.po.to[r], 0);
	     w < EVENTS;
	     w = next(x.W & x.same_word.to[r] & ~BIT(r) & ~x.po.to[r], w + 1)) {
		x.reads_from[r] = w;
		choose_rf(left);
	}
}

/* ---- the program ---- */

static void add_event(u32 task, enum litmus_kind kind, const struct litmus_step *s,
                      u32 cas)
{
	static const struct {
		u64 *sets[3];
	} in[] = {
		[LITMUS_LOAD] = { { &x.R } },
		[LITMUS_LOAD_DEP] = { { &x.R, &x.dependent } },
		[LITMUS_LOAD_ACQUIRE] = { { &x.R, &x.acquires } },
		[LITMUS_STORE] = { { &x.W } },
		[LITMUS_STORE_RELEASE] = { { &x.W, &x.releases } },
		[LITMUS_ADD] = { { &x.R, &x.W, &x.rmw } },
		[LITMUS_CAS_FROM] = { { &x.R, &x.W, &x.rmw } },
		[LITMUS_FULL] = { { &x.fence_full } },
		[LITMUS_ACQUIRE] = { { &x.fence_acquire } },
		[LITMUS_RELEASE] = { { &x.fence_release } },
	};
	u32 e = x.nr++;

	assert_true(kind <= LITMUS_RELEASE);
	x.events[e] = (struct event){ task, cas, *s };
	x.all |= BIT(e);
	for (u32 i = 0; i < 3 && in[kind].sets[i]; i++)
		*in[kind].sets[i] |= BIT(e);
}

static void relate(u32 a, u32 b)
{
	bool same_task = x.events[a].task == x.events[b].task;
	bool same_word = (x.R | x.W) & BIT(a) && (x.R | x.W) & BIT(b) &&
	                 x.events[a].step.word == x.events[b].step.word;

	x.id.to[a] |= a == b ? BIT(b) : 0;
	x.same_task.to[a] |= same_task ? BIT(b) : 0;
	x.same_word.to[a] |= same_word ? BIT(b) : 0;
	x.po.to[a] |= same_task && a < b ? BIT(b) : 0;
	x.po_loc.to[a] = x.po.to[a] & x.same_word.to[a];
}

void axioms_judge(const struct litmus_program *p, struct axioms_outcomes *ret)
{
	memset(&x, 0, sizeof(x));
	ret->nr = 0;
	x.outcomes = ret;
	for (u32 t = 0; t < p->nr_tasks; t++)
		for (u32 i = 0; i < p->nr_steps[t]; i++) {
			const struct litmus_step *s = &p->steps[t][i];
			bool is_cas = s->kind == LITMUS_CAS_FROM;
			bool is_rmw = is_cas || s->kind == LITMUS_ADD;
			u32 cas = is_cas ? x.nr + 1 : INIT;

			if (is_rmw)
				add_event(t, LITMUS_FULL, s, cas);
			add_event(t, s->kind, s, INIT);
			if (is_rmw)
				add_event(t, LITMUS_FULL, s, cas);
		}
	for (u32 a = 0; a < x.nr; a++)
		for (u32 b = 0; b < x.nr; b++)
			relate(a, b);
	choose_rf(x.R);
}

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Exhaustive search. Contract: host/check/exhaustive.h.
 *
 * The tree is not kept, only the path to where the search stands; each schedule runs again
 * from the start. A node is a moment at which more than one entity could be next.
 *
 * Sleep sets. Once all that begins with entity e at a node has been tried, e sleeps while
 * the search tries the node's other choices. Suppose that nothing that meets e's step has
 * happened since. Then a schedule that goes on with e differs from one already tried only
 * in the order of steps that do not meet. The first step that meets e's wakes e. When only
 * sleepers are left, the schedule is cut.
 *
 * For that to be right, two accesses to one word must meet if one of them changes it. A step
 * that empties a store buffer must meet one whose store enters or leaves it. Steps with
 * plain work that others may look at must meet as well. The search finds them when it
 * compares memory before and after a step. It does not know which step reads that work, so
 * such a step meets every other. So do faults' deeds (kill, migrate, poison), waiting,
 * spinning, drawing a number and looking at the clock. The search does not see state that
 * an oracle keeps outside the checker's memory: check.h forbids it.
 *
 * With a bound. A cut schedule runs s, u, e, w, where e, s, u, w was tried before. The cut
 * is right only if the latter is within the bound too. It is in two cases.
 *   - e is a store on its way, which costs nothing anywhere.
 *   - e is the step with which the running task goes on. The cut schedule pays for leaving
 *     that task at the node, and perhaps again when it goes back. The other one pays for
 *     leaving it once, after e. From u straight to w costs at most what u to e and e to w
 *     cost.
 * If e is another task's step, going there and back may cost more than in the cut schedule.
 * Hence, under a bound that can be met at all, only those two kinds sleep.
 */
#include "host/check/exhaustive.h"

#define NUMBER_MAX 255u /* choices of one host_choose() */
#define NO_NODE CHOICES_MAX

struct node {
	u8 nr, taken; /* order[taken] is being tried, those before it have been */
	bool is_number;
	bool may_sleep[ENTITY_MAX];
	u8 order[ENTITY_MAX];
	struct footprint feet[ENTITY_MAX]; /* of the step that order[i] begins with */
};

static struct {
	struct node path[CHOICES_MAX];
	u32 known;              /* nodes of the path */
	u32 depth, preemptions; /* in the schedule that runs */
	u32 last; /* the node whose choice runs, NO_NODE: there was none */
	u32 bound;
	bool sleep_sets, overflow;
	u32 asleep; /* a bit for each entity */
	struct footprint feet[ENTITY_MAX];
} search;

static void stepped(const struct footprint *foot)
{
	u32 e;

	if (search.last != NO_NODE)
		search.path[search.last].feet[search.path[search.last].taken] = *foot;
	for (e = 0; e < ENTITY_MAX && search.asleep >> e; e++)
		if (search.asleep >> e & 1 && footprint_meets(&search.feet[e], foot))
			search.asleep &= ~(1u << e);
}

static bool is_in(const u32 *entities, u32 nr, u32 e)
{
	for (u32 i = 0; i < nr; i++)
		if (entities[i] == e)
			return true;
	return false;
}

static bool is_free(u32 e)
{
	return e >= CHECK_MAX_TASKS ||
	       (engine.tasks[e].is_fault && !engine.tasks[e].begun);
}

/* The running task first: the first schedule of a node is the one that costs nothing. */
static void node_make(struct node *n, const u32 *entities, u32 nr, bool can_stay)
{
	bool unbounded = search.bound >= engine.max_steps;
	u32 i, e;

	n->nr = n->taken = 0;
	n->is_number = false;
	if (can_stay && !(search.asleep >> engine.current & 1)) {
		n->may_sleep[0] = true;
		n->order[n->nr++] = (u8)engine.current;
	}
	for (i = 0; i < nr; i++) {
		e = entities[i];
		if ((can_stay && e == engine.current) || search.asleep >> e & 1)
			continue;
		if (can_stay && !is_free(e) && search.preemptions >= search.bound)
			continue;
		n->may_sleep[n->nr] = unbounded || e >= CHECK_MAX_TASKS;
		n->order[n->nr++] = (u8)e;
	}
}

static u32 choose(const u32 *entities, u32 nr)
{
	bool can_stay = is_in(entities, nr, engine.current) &&
	                engine.tasks[engine.current].state == TASK_READY;
	struct node *n;
	u32 i, e;

	search.last = NO_NODE;
	if (nr == 1)
		return search.asleep >> entities[0] & 1 ? NOBODY : entities[0];
	if (search.depth == CHOICES_MAX) {
		search.overflow = true;
		return can_stay ? engine.current : entities[0];
	}
	n = &search.path[search.depth];
	if (search.depth == search.known) {
		node_make(n, entities, nr, can_stay);
		if (n->nr == 0)
			return NOBODY;
		search.known++;
	}
	for (i = 0; i < n->taken && search.sleep_sets; i++) {
		if (!n->may_sleep[i])
			continue;
		search.asleep |= 1u << n->order[i];
		search.feet[n->order[i]] = n->feet[i];
	}
	e = n->order[n->taken];
	if (can_stay && e != engine.current && !is_free(e))
		search.preemptions++;
	search.last = search.depth++;
	return e;
}

static u32 choose_number(u32 entity, u32 n)
{
	(void)entity;
	struct node *node;

	if (n > NUMBER_MAX || search.depth == CHOICES_MAX) {
		search.overflow = true;
		return 0;
	}
	node = &search.path[search.depth];
	if (search.depth == search.known) {
		node->is_number = true;
		node->nr = (u8)n;
		node->taken = 0;
		search.known++;
	}
	search.depth++;
	return node->taken;
}

static u32 choose_draw(u32 drawn, u32 n)
{
	(void)drawn;
	return choose_number(NOBODY, n);
}

void exhaustive_begin(u32 preemption_bound, bool sleep_sets)
{
	search.known = 0;
	search.bound = preemption_bound;
	search.sleep_sets = sleep_sets;
	search.overflow = false;
}

void exhaustive_prepare(void)
{
	search.depth = search.preemptions = search.asleep = 0;
	search.last = NO_NODE;
	engine.choose = choose;
	engine.choose_number = choose_number;
	engine.choose_draw = choose_draw;
	engine.stepped = search.sleep_sets ? stepped : NULL;
	memory_watch(search.sleep_sets);
}

bool exhaustive_next(void)
{
	struct node *n;

	while (search.known > 0) {
		n = &search.path[search.known - 1];
		if (++n->taken < n->nr)
			return true;
		search.known--;
	}
	return false;
}

bool exhaustive_is_complete(void)
{
	return !search.overflow;
}

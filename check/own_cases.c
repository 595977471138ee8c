/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a program's own objects must stand (core/counter/counter.h):
 *
 *   own-kill     two readers get, look and put; one more kills the object
 *   own-killers  the same with two killers
 *   own-refused  the same, where fences of the kills are refused: such a kill is tried again
 *   own-again    the killed object lives again at its address, and the readers go on
 *   own-pass     one task takes references, another one on another CPU puts them, a third kills
 *   own-one-cpu  two readers of one CPU, and a killer of another one
 *   own-collide  three readers of one CPU. Each has an object of its own, and their bucket has two
 *                entries. All three objects are killed
 *   own-late     tasks of two CPUs bring the object's key while it is killed. When the kill gates
 *                one of the two entries, another object takes the other one. Either may come first.
 *                A fence may be refused
 *   own-ask      a task holds a reference and asks, while readers come and go
 *   own-idle     a task of another CPU asks until nobody holds one
 *
 * In scheme paygo all threads have sequences, and in packed none has. In mixed each schedule draws
 * which ones have. In inline they call the functions of lodic/counter.h. In atomic the word alone
 * counts.
 */
#include "check/own_world.h"

#define TURNS 2u
#define ASKS 4u
#define READER 0u /* the first task */

static void reader(void *arg)
{
	u32 object = (u32)(uintptr_t)arg, turn;
	u64 token, more;

	for (turn = 0; turn < TURNS; turn++) {
		if (!own_get(object, &token))
			continue;
		own_look(object);
		if (turn == 1) {
			more = own_get_more(object);
			own_put(object, token);
			token = more;
			own_look(object);
		}
		own_put(object, token);
	}
}

static void killer(void *arg)
{
	own_kill((u32)(uintptr_t)arg);
}

static void kill_all(void *arg)
{
	u32 i;

	(void)arg;
	for (i = 0; i < OWN_OBJECTS; i++)
		own_kill(i);
}

static void kill_tasks(const struct own_case *c)
{
	u32 i;

	for (i = 0; i < c->nr_readers; i++)
		check_task("reader", i, reader, NULL);
	check_task("killer", c->nr_readers, killer, NULL);
}

static void killers_tasks(const struct own_case *c)
{
	kill_tasks(c);
	check_task("killer", 0, killer, NULL);
}

static void refused_tasks(const struct own_case *c)
{
	killers_tasks(c);
	check_refuse(CHECK_NO_FENCE, 2);
}

static bool is_released(void *arg)
{
	(void)arg;
	return own->objects[0].released;
}

static void renewer(void *arg)
{
	(void)arg;
	own_kill(0);
	check_wait(is_released, NULL);
	own_renew(0);
}

static void again_tasks(const struct own_case *c)
{
	u32 i;

	for (i = 0; i < c->nr_readers; i++)
		check_task("reader", i, reader, NULL);
	check_task("renewer", c->nr_readers, renewer, NULL);
}

static void taker(void *arg)
{
	struct own_token *t;
	u64 token;

	(void)arg;
	while (own->nr_passed < TURNS + 1 && own_get(0, &token)) {
		t = &own->passed[own->nr_passed++];
		t->object = 0;
		t->token = token;
		t->there = true;
	}
	own->takers_done = true;
}

static bool is_passed(void *arg)
{
	u32 *nr = arg;

	return own->nr_passed > *nr || own->takers_done;
}

static void giver(void *arg)
{
	u32 nr = 0;

	(void)arg;
	for (;;) {
		check_wait(is_passed, &nr);
		if (nr == own->nr_passed)
			return;
		own->passed[nr].there = false;
		own_look(0);
		own_put(0, own->passed[nr].token);
		nr++;
	}
}

static void pass_tasks(const struct own_case *c)
{
	(void)c;
	check_task("taker", 0, taker, NULL);
	check_task("giver", 1, giver, NULL);
	check_task("killer", 2, killer, NULL);
}

static void one_cpu_tasks(const struct own_case *c)
{
	u32 i;

	for (i = 0; i < c->nr_readers; i++)
		check_task("reader", 0, reader, NULL);
	check_task("killer", 1, killer, NULL);
}

static void collide_tasks(const struct own_case *c)
{
	u32 i;

	(void)c;
	for (i = 0; i < OWN_OBJECTS; i++)
		check_task("reader", 0, reader, (void *)(uintptr_t)i);
	check_task("killer", 1, kill_all, NULL);
}

/* What a get does first. It is stopped before it counts. The object comes after another one, or
 * first. */
static void bring(u32 cpu, u32 object, const u64 *after)
{
	u64 *word = own->objects[object].word, key = (u64)(size_t)word;
	struct counter_entry *e = counter_entry(&own->domain, check_cpu(cpu),
	                                        counter_bucket(&own->domain, key));

	host_percpu_step(word, &e->local, 0, &e->key, check_cpu(cpu),
	                 (u64)(size_t)after, key);
}

static bool is_gated(void *arg)
{
	u32 cpu = (u32)(uintptr_t)arg;
	u64 key = (u64)(size_t)own->objects[0].word;
	u32 bucket = counter_bucket(&own->domain, key);

	return own->objects[0].kill_done ||
	       counter_entry(&own->domain, check_cpu(cpu), bucket)->key ==
	               (key | COUNTER_GATED);
}

/* Both do so: at one of their CPUs a kill looks first. */
static void late(void *arg)
{
	u32 cpu = (u32)(uintptr_t)arg;

	bring(cpu, 0, NULL);
	check_wait(is_gated, (void *)(uintptr_t)(1 - cpu));
	bring(cpu, 1, own->objects[0].word);
}

static void late_tasks(const struct own_case *c)
{
	(void)c;
	check_task("late", 0, late, (void *)0);
	check_task("late", 1, late, (void *)1);
	check_task("killer", 2, killer, NULL);
	check_refuse(CHECK_NO_FENCE, 1);
}

static void asker(void *arg)
{
	u64 token;
	u32 i;

	(void)arg;
	if (!own_get(0, &token))
		return;
	for (i = 0; i < 2; i++)
		own_query(0);
	own_put(0, token);
}

/* The asker's reference is in the entry in which the readers count. */
static void ask_tasks(const struct own_case *c)
{
	u32 i;

	for (i = 0; i < c->nr_readers; i++)
		check_task("reader", 0, reader, NULL);
	check_task("asker", 0, asker, NULL);
}

static bool is_told(void *arg)
{
	(void)arg;
	return own->objects[0].told[READER] || check_is_done(READER);
}

static void idler(void *arg)
{
	u32 i;

	check_wait(is_told, arg);
	for (i = 0; i < ASKS; i++) {
		own_ask(0);
		host_relax();
	}
}

static void passer(void *arg)
{
	u64 token;

	(void)arg;
	if (own_get(0, &token)) {
		own_tell(0);
		own_look(0);
		own_put(0, token);
	}
}

/* The last one to put may have another object, whose key takes the entry. */
static void idle_tasks(const struct own_case *c)
{
	(void)c;
	check_task("reader", 0, passer, NULL); /* READER */
	check_task("other", 0, reader, (void *)1);
	check_task("other", 0, reader, (void *)2);
	check_task("asker", 1, idler, NULL);
}

/* One row per way of counting. */
static const struct {
	const char *name;
	struct own_case c;
} ways[] = {
	{ "paygo", { .scheme = COUNTER_PAYGO } },
	{ "packed", { .scheme = COUNTER_PERCPU, .packed = true } },
	{ "mixed", { .scheme = COUNTER_PAYGO, .mixed = true } },
	{ "inline", { .scheme = COUNTER_PAYGO, .inline_calls = true } },
	{ "atomic", { .scheme = COUNTER_ATOMIC } },
};
#define NR_WAYS (sizeof(ways) / sizeof(ways[0]))

static const struct {
	const char *name;
	void (*tasks)(const struct own_case *c);
	u32 nr_readers, nr_cpus;
} scenarios[] = {
	{ "own-kill", kill_tasks, 2, 3 },       { "own-killers", killers_tasks, 2, 3 },
	{ "own-refused", refused_tasks, 2, 3 }, { "own-again", again_tasks, 2, 3 },
	{ "own-pass", pass_tasks, 0, 3 },       { "own-one-cpu", one_cpu_tasks, 2, 2 },
	{ "own-collide", collide_tasks, 3, 2 }, { "own-late", late_tasks, 0, 3 },
	{ "own-ask", ask_tasks, 2, 2 },         { "own-idle", idle_tasks, 3, 2 },
};
#define NR_SCENARIOS (sizeof(scenarios) / sizeof(scenarios[0]))

void check_cases_own(struct check_list *list)
{
	static struct own_case cases[NR_SCENARIOS][NR_WAYS];
	u32 s, w;

	for (s = 0; s < NR_SCENARIOS; s++)
		for (w = 0; w < NR_WAYS; w++) {
			struct own_case *c = &cases[s][w];
			struct check_case one = { .scenario = scenarios[s].name,
				                  .scheme = ways[w].name,
				                  .run = { scenarios[s].name,
				                           scenarios[s].nr_cpus, c,
				                           own_setup, own_finish } };

			*c = ways[w].c;
			c->tasks = scenarios[s].tasks;
			c->nr_readers = scenarios[s].nr_readers;
			check_list_add(list, &one);
		}
}

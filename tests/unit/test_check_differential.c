/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Random litmus programs: what the checker's memories show, against what axioms allow
 * (tests/support/axioms.h). Under sc, tso and pso the two must be the same. Under weak nothing may
 * come out that RC11 forbids. What ARMv8 allows must come out, unless a store goes before an
 * earlier load of its task.
 *
 *    test_check_differential [PROGRAMS [SEED]]
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "host/random.h"
#include "tests/support/axioms.h"

#define SCHEDULES 300u /* of each strategy, in a round */
#define ROUNDS_MAX 3000u /* 3,276,000 schedules */
/* Programs with more of them are asked only for what must not come out. Of 4,000 others (seed 7)
 * one needed 1,296,204 schedules, and the rest fewer. */
#define OUTCOMES_MAX 64u
#define STORES_MAX 3u /* to a word: a load may return one of the last four values */

static u32 nr_programs = 200;
static u64 seed = 1;

/* What a memory must show, what it may show, and so many rounds at least. */
static const struct {
	const char *name;
	enum axioms must, may;
	u32 rounds;
} memories[CHECK_MEMORIES] = {
	[CHECK_SC] = { "sc", AXIOMS_SC, AXIOMS_SC, 1 },
	[CHECK_TSO] = { "tso", AXIOMS_TSO, AXIOMS_TSO, 1 },
	[CHECK_PSO] = { "pso", AXIOMS_PSO, AXIOMS_PSO, 1 },
	[CHECK_WEAK] = { "weak", AXIOMS_ARMV8, AXIOMS_RC11, 8 },
};

static struct {
	struct litmus_program program;
	struct axioms_outcomes outcomes;
	enum check_memory memory;
	u32 nr_words, nr_registers;
	u32 nr_stores[LITMUS_WORDS];
	u64 random, schedules;
} now;

/* ---- a random program ---- */

static u32 below(u32 n)
{
	return (u32)((random_next(&now.random) >> 32) * n >> 32);
}

/* At its ends a task has no fence, which would order nothing there. It goes from one word to the
 * next: most programs that tell memories apart have such a cycle (Alglave et al., TOPLAS'14). */
static struct litmus_step random_step(u32 task, bool is_first, bool is_last)
{
	static const enum litmus_kind kinds[] = {
		LITMUS_LOAD,  LITMUS_LOAD,     LITMUS_LOAD_DEP, LITMUS_LOAD_ACQUIRE,
		LITMUS_STORE, LITMUS_STORE,    LITMUS_STORE,    LITMUS_STORE_RELEASE,
		LITMUS_ADD,   LITMUS_CAS_FROM, LITMUS_FULL,     LITMUS_FULL,
		LITMUS_FULL,  LITMUS_ACQUIRE,  LITMUS_RELEASE
	};
	struct litmus_step s = { .reg = LITMUS_NO_REGISTER };

	s.kind = kinds[below(is_first || is_last ? 10
	                                         : sizeof(kinds) / sizeof(kinds[0]))];
	if (s.kind >= LITMUS_FULL)
		return s;
	s.word = is_first || is_last ? (task + is_last) % now.nr_words
	                             : below(now.nr_words);
	if (s.kind >= LITMUS_STORE && ++now.nr_stores[s.word] > STORES_MAX)
		s.kind = LITMUS_LOAD;
	switch (s.kind) {
	case LITMUS_STORE:
	case LITMUS_STORE_RELEASE: s.number = now.nr_stores[s.word]; return s;
	case LITMUS_ADD: s.number = STORES_MAX + 1; break;
	case LITMUS_CAS_FROM: s.number = below(STORES_MAX + 1); break;
	default: break;
	}
	s.reg = now.nr_registers++;
	return s;
}

static void random_program(u64 number)
{
	struct litmus_program *p = &now.program;

	memset(&now, 0, sizeof(now));
	now.random = random_mix(seed) + number;
	now.nr_words = 2 + below(LITMUS_WORDS - 1);
	p->nr_tasks = 2 + below(2);
	for (u32 t = 0; t < p->nr_tasks; t++) {
		p->nr_steps[t] = 2 + below(p->nr_tasks == 2 ? 3 : 2);
		for (u32 i = 0; i < p->nr_steps[t]; i++)
			p->steps[t][i] =
				random_step(t, i == 0, i + 1 == p->nr_steps[t]);
	}
}

/* ---- what is known of its outcomes ---- */

static bool may(const struct axioms_outcome *o, enum axioms model)
{
	return o->may >> model & 1;
}

static u32 nr_of(enum axioms model)
{
	u32 nr = 0;

	for (u32 i = 0; i < now.outcomes.nr; i++)
		nr += may(&now.outcomes.of[i], model);
	return nr;
}

/* Each model allows what the stronger ones do. */
static void check_models(void)
{
	for (u32 i = 0; i < now.outcomes.nr; i++)
		for (u32 m = AXIOMS_SC; m < AXIOMS_RC11; m++)
			if (may(&now.outcomes.of[i], m) &&
			    !may(&now.outcomes.of[i], m + 1)) {
				litmus_print(&now.program, now.outcomes.of[i].outcome);
				fail_msg("model %u allows it, and %u does not", m,
				         m + 1);
			}
}

/* ---- sequential consistency once more, by all interleavings ---- */

struct interleaving {
	u32 next[LITMUS_TASKS];
	u64 words[LITMUS_WORDS], outcome;
};

static void take_step(struct interleaving *i, const struct litmus_step *s)
{
	u64 *word = &i->words[s->word], read = *word;

	switch (s->kind) {
	case LITMUS_STORE:
	case LITMUS_STORE_RELEASE: *word = s->number; return;
	case LITMUS_ADD: *word += s->number; break;
	case LITMUS_CAS_FROM:
		read = *word == s->number;
		*word = read ? LITMUS_CAS : *word;
		break;
	case LITMUS_LOAD:
	case LITMUS_LOAD_DEP:
	case LITMUS_LOAD_ACQUIRE: break;
	default: return;
	}
	i->outcome |= litmus_register(s->reg, read);
}

static void interleave(const struct interleaving *i)
{
	struct axioms_outcome *o;
	bool is_end = true;
	u64 outcome = i->outcome;

	for (u32 t = 0; t < now.program.nr_tasks; t++) {
		struct interleaving after = *i;

		if (i->next[t] == now.program.nr_steps[t])
			continue;
		is_end = false;
		take_step(&after, &now.program.steps[t][after.next[t]++]);
		interleave(&after);
	}
	if (!is_end)
		return;
	for (u32 w = 0; w < LITMUS_WORDS; w++)
		outcome |= litmus_word(w, i->words[w]);
	o = axioms_find(&now.outcomes, outcome);
	if (!o || !may(o, AXIOMS_SC)) {
		litmus_print(&now.program, outcome);
		fail_msg("the axioms of sc forbid an interleaving");
	}
	o->met |= 1u << CHECK_MEMORIES;
}

static void check_interleavings(void)
{
	interleave(&(struct interleaving){ { 0 }, { 0 }, 0 });
	for (u32 i = 0; i < now.outcomes.nr; i++)
		if (may(&now.outcomes.of[i], AXIOMS_SC) &&
		    !(now.outcomes.of[i].met >> CHECK_MEMORIES & 1)) {
			litmus_print(&now.program, now.outcomes.of[i].outcome);
			fail_msg("the axioms of sc allow more than interleavings");
		}
}

/* ---- the checker ---- */

static void met(u64 outcome)
{
	struct axioms_outcome *o = axioms_find(&now.outcomes, outcome);

	now.schedules++;
	if (!o || !may(o, memories[now.memory].may)) {
		litmus_print(&now.program, outcome);
		fail_msg("%s shows what it must not", memories[now.memory].name);
	}
	o->met |= 1u << now.memory;
}

/* One that has not been met; NULL: none. */
static const struct axioms_outcome *lacking(void)
{
	for (u32 i = 0; i < now.outcomes.nr; i++)
		if (may(&now.outcomes.of[i], memories[now.memory].must) &&
		    !(now.outcomes.of[i].met >> now.memory & 1))
			return &now.outcomes.of[i];
	return NULL;
}

static void search(bool is_few)
{
	u32 least = memories[now.memory].rounds;
	struct check_options o = { .memory = now.memory, .nr_schedules = SCHEDULES };
	const struct axioms_outcome *lacks = NULL;

	now.schedules = 0;
	for (u32 round = 0; round < least || (lacks && round < ROUNDS_MAX); round++) {
		for (u32 k = CHECK_RANDOM; k <= CHECK_PCT4; k++) {
			o.strategy = k;
			o.seed = seed + round;
			litmus_search(&now.program, &o, met);
		}
		lacks = is_few ? lacking() : NULL;
	}
	if (lacks) {
		litmus_print(&now.program, lacks->outcome);
		fail_msg("%s does not show it in %llu schedules",
		         memories[now.memory].name, (unsigned long long)now.schedules);
	}
}

static void random_programs_show_what_axioms_allow(void **state)
{
	u64 most = 0, all = 0;
	u32 left_out = 0;

	(void)state;
	printf("seed %llu\n", (unsigned long long)seed);
	for (u32 i = 0; i < nr_programs; i++) {
		bool is_few;

		random_program(i);
		axioms_judge(&now.program, &now.outcomes);
		check_models();
		check_interleavings();
		is_few = nr_of(AXIOMS_ARMV8) <= OUTCOMES_MAX;
		left_out += !is_few;
		for (now.memory = CHECK_SC; now.memory < CHECK_MEMORIES; now.memory++) {
			search(is_few);
			all += now.schedules;
			most = most > now.schedules ? most : now.schedules;
		}
	}
	printf("%u programs, %u with more than %u outcomes; %llu schedules, at most %llu\n",
	       nr_programs, left_out, OUTCOMES_MAX, (unsigned long long)all,
	       (unsigned long long)most);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_programs_show_what_axioms_allow),
	};

	if (argc > 1)
		nr_programs = (u32)strtoul(argv[1], NULL, 0);
	if (argc > 2)
		seed = strtoull(argv[2], NULL, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

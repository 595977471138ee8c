/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#include "tests/support/litmus.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const fences[] = { "full", "acquire", "release", "light", "heavy" };

static struct litmus_step parse(const char *s)
{
	struct litmus_step step = { .reg = LITMUS_NO_REGISTER };

	for (u32 i = 0; i < sizeof(fences) / sizeof(fences[0]); i++)
		if (strncmp(s, fences[i], strlen(fences[i])) == 0) {
			step.kind = LITMUS_FULL + i;
			return step;
		}
	if (s[0] == 'r') {
		step.reg = (u32)strtoul(s + 1, NULL, 10);
		s = strchr(s, '=') + 1;
	}
	step.word = (u32)(s[0] - 'x');
	if (s[1] == '=') {
		step.number = (u32)(s[2] - '0');
		step.kind = s[3] == ' ' ? LITMUS_STORE_RELEASE : LITMUS_STORE;
	} else if (s[1] == '+') {
		step.number = (u32)(s[s[2] == '=' ? 3 : 2] - '0');
		step.kind = LITMUS_ADD;
	} else if (s[1] == '?') {
		step.number = (u32)(s[2] - '0');
		step.kind = LITMUS_CAS_FROM;
	} else if (s[1] == ' ') {
		step.kind = s[2] == 'a' ? LITMUS_LOAD_ACQUIRE : LITMUS_LOAD_DEP;
	}
	return step;
}

void litmus_add_task(struct litmus_program *p, const char *steps)
{
	u32 *nr = &p->nr_steps[p->nr_tasks];

	for (const char *s = steps; s; s = strchr(s, ';')) {
		s += strspn(s, "; ");
		assert_true(*nr < LITMUS_STEPS);
		p->steps[p->nr_tasks][(*nr)++] = parse(s);
	}
	p->nr_tasks++;
}

static void print_step(const struct litmus_step *s)
{
	char word = (char)('x' + s->word);

	switch (s->kind) {
	case LITMUS_LOAD: printf("r%u=%c", s->reg, word); break;
	case LITMUS_LOAD_DEP: printf("r%u=%c dep", s->reg, word); break;
	case LITMUS_LOAD_ACQUIRE: printf("r%u=%c acquire", s->reg, word); break;
	case LITMUS_STORE: printf("%c=%u", word, s->number); break;
	case LITMUS_STORE_RELEASE: printf("%c=%u release", word, s->number); break;
	case LITMUS_ADD: printf("r%u=%c+%u", s->reg, word, s->number); break;
	case LITMUS_CAS_FROM: printf("r%u=%c?%u", s->reg, word, s->number); break;
	default: printf("%s", fences[s->kind - LITMUS_FULL]);
	}
}

static u32 value_of(u64 outcome, u32 at)
{
	return outcome >> at * LITMUS_BITS & ((1u << LITMUS_BITS) - 1);
}

void litmus_print(const struct litmus_program *p, u64 outcome)
{
	u32 used = 0;

	for (u32 t = 0; t < p->nr_tasks; t++)
		for (u32 i = 0; i < p->nr_steps[t]; i++)
			used |= 1u << p->steps[t][i].reg;
	printf("\"");
	for (u32 i = 0; i < LITMUS_REGISTERS; i++)
		if (used >> i & 1)
			printf("r%u=%u ", i, value_of(outcome, LITMUS_WORDS + i));
	for (u32 i = 0; i < LITMUS_WORDS; i++)
		printf("%s%c=%u", i ? " " : "", 'x' + i, value_of(outcome, i));
	printf("\", 0, ");
	for (u32 t = 0; t < p->nr_tasks; t++) {
		printf("%s\"", t ? ", " : "{ ");
		for (u32 i = 0; i < p->nr_steps[t]; i++) {
			printf("%s", i ? "; " : "");
			print_step(&p->steps[t][i]);
		}
		printf("\"");
	}
	printf(" }\n");
}

bool litmus_holds(const char *text, u64 outcome)
{
	char *end;

	for (const char *s = text; *s; s = end + strspn(end, " ")) {
		u32 at = (u32)(*s - 'x');

		if (*s == 'r')
			at = LITMUS_WORDS + (u32)strtoul(s + 1, NULL, 10);
		if (value_of(outcome, at) != strtoul(strchr(s, '=') + 1, &end, 10))
			return false;
	}
	return true;
}

/* ---- the scenario ---- */

static struct {
	const struct litmus_program *program;
	void (*met)(u64 outcome);
	struct world {
		struct {
			u64 v, pad[7];
		} words[LITMUS_WORDS];
		u64 registers[LITMUS_REGISTERS + 1];
	} * world;
} now;

static void task(void *arg)
{
	u32 t = (u32)(uintptr_t)arg;

	for (u32 i = 0; i < now.program->nr_steps[t]; i++) {
		const struct litmus_step *s = &now.program->steps[t][i];
		u64 *p = &now.world->words[s->word].v,
		    *r = &now.world->registers[s->reg];

		switch (s->kind) {
		case LITMUS_LOAD: *r = host_load_relaxed(p); break;
		case LITMUS_LOAD_DEP: *r = host_load_dep(p); break;
		case LITMUS_LOAD_ACQUIRE: *r = host_load_acquire(p); break;
		case LITMUS_STORE: host_store_relaxed(p, s->number); break;
		case LITMUS_STORE_RELEASE: host_store_release(p, s->number); break;
		case LITMUS_ADD: *r = host_fetch_add(p, s->number); break;
		case LITMUS_CAS_FROM: *r = host_cas(p, s->number, LITMUS_CAS); break;
		case LITMUS_FULL: host_fence_full(); break;
		case LITMUS_ACQUIRE: host_fence_acquire(); break;
		case LITMUS_RELEASE: host_fence_release(); break;
		case LITMUS_LIGHT: host_fence_light(); break;
		case LITMUS_HEAVY: host_fence_heavy(); break;
		}
	}
}

static void setup(const void *arg)
{
	(void)arg;
	now.world = host_alloc(sizeof(*now.world), 64);
	for (u32 t = 0; t < now.program->nr_tasks; t++)
		check_task("task", now.program->one_cpu ? 0 : t, task,
		           (void *)(uintptr_t)t);
}

static void finish(const void *arg)
{
	u64 outcome = 0;

	(void)arg;
	for (u32 i = 0; i < LITMUS_WORDS; i++)
		outcome |= litmus_word(i, now.world->words[i].v);
	for (u32 i = 0; i < LITMUS_REGISTERS; i++)
		outcome |= litmus_register(i, now.world->registers[i]);
	now.met(outcome);
}

void litmus_search(const struct litmus_program *p, const struct check_options *o,
                   void (*met)(u64 outcome))
{
	const struct check_scenario scenario = { "litmus", LITMUS_TASKS, NULL, setup,
		                                 finish };
	struct check_result result;

	now.program = p;
	now.met = met;
	check_run(&scenario, o, true, &result);
	assert_int_equal(result.violations, 0);
}

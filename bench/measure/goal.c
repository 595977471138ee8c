/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See bench/measure/goal.h. */
#include "bench/measure/goal.h"

#define WHAT_BYTES 80
#define MOST_GOALS 40

struct goal {
	char what[WHAT_BYTES];
	double value; /* 0: it cannot be said */
	double least; /* negative: the value must be at most -least */
};

struct goals {
	const struct measure *m;
	unsigned int nr;
	struct goal list[MOST_GOALS];
};

/* One cell, without what it is the rate of. */
struct place {
	enum access access;
	uint32_t bytes;
	unsigned int processes;
};

static const struct cell *goal_cell(const struct measure *m, enum method method,
                                    const struct place *at)
{
	const struct cell *c =
		measure_cell(m, method, at->access, at->bytes, at->processes);

	return c && !c->rough ? c : NULL;
}

/* method's rate over that of over; 0: it cannot be said. */
static double goal_over(const struct measure *m, enum method method,
                        const struct place *at, enum method over,
                        const struct place *over_at)
{
	const struct cell *a = goal_cell(m, method, at);
	const struct cell *b = goal_cell(m, over, over_at);

	return a && b ? measure_over(a, b) : 0;
}

__attribute__((format(printf, 4, 5))) static void
goal_add(struct goals *goals, double value, double least, const char *format, ...)
{
	struct goal *g = &goals->list[goals->nr];
	va_list args;

	if (goals->nr == MOST_GOALS)
		return;
	goals->nr++;
	va_start(args, format);
	vsnprintf(g->what, sizeof(g->what), format, args);
	va_end(args);
	g->value = value;
	g->least = least;
}

/* A pin loses to nobody who promises the same: in no cell is it slower than the best of those
 * who could be used instead. */
static void goal_add_rivals(struct goals *goals, const struct place *at)
{
	static const enum method rivals[] = { METHOD_PIN_ATOMIC, METHOD_PIN_FROZEN,
		                              METHOD_PIN_HAZARD };
	double ratio, least = 0;
	bool known = true;

	for (size_t i = 0; i < sizeof(rivals) / sizeof(*rivals); i++) {
		ratio = goal_over(goals->m, METHOD_LODIC_PIN, at, rivals[i], at);
		known = known && ratio > 0;
		least = i == 0 || ratio < least ? ratio : least;
	}
	goal_add(goals, known ? least : 0, 0.95,
	         "lodic_pin over the best rival, %s, %u B, %u process%s",
	         workload_access_name(at->access), at->bytes, at->processes,
	         at->processes > 1 ? "es" : "");
}

static void goal_add_hot(struct goals *goals)
{
	const struct place one = { ACCESS_HOT, 64, 1 }, two = { ACCESS_HOT, 64, 2 };
	const struct measure *m = goals->m;
	double alone = goal_over(m, METHOD_PRIVATE, &two, METHOD_PRIVATE, &one);
	double pins = goal_over(m, METHOD_LODIC_PIN, &two, METHOD_LODIC_PIN, &one);

	goal_add(goals, goal_over(m, METHOD_LODIC_PIN, &two, METHOD_PIN_ATOMIC, &two),
	         5, "lodic_pin over pin_atomic, hot, 64 B, 2 processes");
	goal_add(goals, goal_over(m, METHOD_LODIC_PIN, &one, METHOD_PIN_HAZARD, &one),
	         1.4, "lodic_pin over pin_hazard, hot, 64 B, 1 process");
	goal_add(goals,
	         goal_over(m, METHOD_LODIC_PIN, &one, METHOD_PIN_HAZARD_LIGHT, &one),
	         0.8, "lodic_pin over pin_hazard_light, hot, 64 B, 1 process");
	goal_add(goals, goal_over(m, METHOD_LODIC_PIN, &one, METHOD_LODIC_READ, &one),
	         0.7, "lodic_pin over lodic_read, hot, 64 B, 1 process");
	goal_add(goals, alone > 0 ? pins / alone : 0, 0.95,
	         "lodic_pin, 2 processes over 1, over private's, hot, 64 B");
	goal_add(goals,
	         goal_over(m, METHOD_LODIC_PIN, &two, METHOD_LODIC_PIN_APART, &two),
	         0.95, "lodic_pin over lodic_pin_apart, hot, 64 B, 2 processes");
	goal_add(goals, goal_over(m, METHOD_LODIC_READ_INLINE, &one, METHOD_MMAP, &one),
	         0.4, "lodic_read_inline over mmap, hot, 64 B, 1 process");
	goal_add(goals,
	         goal_over(m, METHOD_LODIC_READ_INLINE, &one, METHOD_LODIC_READ, &one),
	         1.3, "lodic_read_inline over lodic_read, hot, 64 B, 1 process");
	goal_add(goals, goal_over(m, METHOD_LODIC_VIEW, &one, METHOD_MMAP, &one), 0.42,
	         "lodic_view over mmap, hot, 64 B, 1 process");
	goal_add(goals, goal_over(m, METHOD_LODIC_VIEW_INLINE, &one, METHOD_MMAP, &one),
	         0.42, "lodic_view_inline over mmap, hot, 64 B, 1 process");
	/* About time, so the rates stand the other way round. */
	goal_add(goals, goal_over(m, METHOD_CAS_PAIR, &one, METHOD_PIN_ATOMIC, &one),
	         -1.3, "cas_pair over pin_atomic, hot, 64 B, 1 process");
}

static void goal_find(struct goals *goals, const struct measure *m)
{
	static const uint32_t bytes[] = { 64, 4096 };

	goals->m = m;
	goals->nr = 0;
	for (int access = 0; access < NR_ACCESSES; access++)
		for (int b = 0; b < 2; b++)
			for (unsigned int processes = 1; processes <= 2; processes++)
				goal_add_rivals(goals,
				                &(struct place){ (enum access)access,
				                                 bytes[b], processes });
	goal_add_hot(goals);
}

static bool goal_is_met(const struct goal *g)
{
	return g->least < 0 ? g->value <= -g->least : g->value >= g->least;
}

unsigned int goal_report(const struct measure *m, FILE *to)
{
	unsigned int missed = 0;
	struct goals goals;

	goal_find(&goals, m);
	if (to)
		fputs("\nRatios, with what this project promises:\n", to);
	for (unsigned int i = 0; i < goals.nr; i++) {
		const struct goal *g = &goals.list[i];
		bool met = goal_is_met(g);

		missed += g->value > 0 && !met;
		if (!to)
			continue;
		if (g->value <= 0) {
			fprintf(to, "  %-57s not measurable\n", g->what);
			continue;
		}
		fprintf(to, "  %-57s %6.2f  (at %s %g)%s\n", g->what, g->value,
		        g->least < 0 ? "most" : "least",
		        g->least < 0 ? -g->least : g->least, met ? "" : "  MISSED");
	}
	return missed;
}

json_t *goal_json(const struct measure *m)
{
	json_t *list = json_array();
	struct goals goals;

	goal_find(&goals, m);
	for (unsigned int i = 0; i < goals.nr; i++) {
		const struct goal *g = &goals.list[i];
		json_t *o = json_object();

		json_object_set_new(o, "what", json_string(g->what));
		json_object_set_new(o, g->least < 0 ? "at_most" : "at_least",
		                    json_real(g->least < 0 ? -g->least : g->least));
		json_object_set_new(o, "value",
		                    g->value > 0 ? json_real(g->value)
		                                 : json_string("not measurable"));
		if (g->value > 0)
			json_object_set_new(o, "met", json_boolean(goal_is_met(g)));
		json_array_append_new(list, o);
	}
	return list;
}

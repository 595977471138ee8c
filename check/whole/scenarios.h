/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The scenarios of the whole product: which programs there are, and what they do. */
#ifndef LODIC_CHECK_WHOLE_SCENARIOS_H
#define LODIC_CHECK_WHOLE_SCENARIOS_H

#include "check/whole/world.h"

struct scenario {
	const char *name;
	void (*begin)(void); /* starts its programs */
	bool faulty;         /* it has the faults that were drawn; else some of its own, or none */
};

void scenario_threads(void);
void scenario_files(void);
void scenario_holds(void);
void scenario_look(void);
void scenario_succession(void);
void scenario_strangers(void);
void scenario_table(void);
void scenario_lent(void);
void scenario_starts(void);
void scenario_idle(void);
void scenario_short(void);
void scenario_seats(void);
void scenario_config(void);
void scenario_far(void);
void scenario_turns(void);
void scenario_races(void);
void scenario_users(void);
void scenario_rubbish(void);
void scenario_cancels(void);
void scenario_channels(void);
void scenario_worker(void);
void scenario_takeover(void);
void scenario_resize(void);
void scenario_pressure(void);
void scenario_budget(void);

extern const struct scenario scenarios[];
extern const u32 nr_scenarios;

/* NULL: there is none of that name. */
const struct scenario *scenario_find(const char *name);
/* One of them, from the seed. */
const struct scenario *scenario_draw(void);
/* After world_begin(). */
void scenario_begin(const struct scenario *scenario);

#endif

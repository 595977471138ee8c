/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What `lodic-sim tier' found, for people and as JSON. */
#ifndef LODIC_SIM_TIER_TIER_REPORT_H
#define LODIC_SIM_TIER_TIER_REPORT_H

#include "sim/tier/run.h"

struct tier_row {
	enum kloc_policy_id policy;
	struct engine_result result;
};

struct tier_report {
	const struct run *run;
	bool nodes;
	double yardstick_ns;
	struct tier_row rows[RUN_MAX_POLICIES];
	u32 nr;
};

void tier_report_print(const struct tier_report *report);
int tier_report_json(const struct tier_report *report); /* 0 or -ENOMEM */

#endif

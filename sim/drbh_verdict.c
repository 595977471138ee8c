/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Does a scheme collapse, where, and on which line: sim/drbh_verdict.h. */
#include <stddef.h>

#include "sim/drbh_verdict.h"

const char *drbh_judgement_name(enum drbh_judgement judgement)
{
	switch (judgement) {
	case DRBH_SCALES: return "scales";
	case DRBH_FALLS_BEHIND: return "falls behind";
	case DRBH_COLLAPSES: return "collapses";
	}
	return "?";
}

static enum drbh_judgement drbh_judgement_of(const struct drbh_point *peak,
                                             const struct drbh_point *most,
                                             double straight)
{
	if (most->result.mops * 100 < peak->result.mops * DRBH_COLLAPSE_PERCENT)
		return DRBH_COLLAPSES;
	if (most->result.mops * 100 < straight * DRBH_BEHIND_PERCENT)
		return DRBH_FALLS_BEHIND;
	return DRBH_SCALES;
}

bool drbh_judge(const struct drbh_point *points, u32 nr,
                struct drbh_verdict *ret_verdict)
{
	const struct drbh_point *fewest = points, *peak = points, *most = points;
	const struct sim_line *line = NULL;
	double straight;
	u32 i;

	for (i = 0; i < nr; i++) {
		const struct drbh_point *p = &points[i];

		if (p->setup.nr_cpus < fewest->setup.nr_cpus)
			fewest = p;
		if (p->setup.nr_cpus > most->setup.nr_cpus)
			most = p;
		if (p->result.mops > peak->result.mops)
			peak = p;
	}
	if (nr < 2 || fewest == most)
		return false;
	for (i = 0; i < most->result.nr_lines; i++)
		if (most->result.lines[i].transfers > (line ? line->transfers : 0))
			line = &most->result.lines[i];
	straight = fewest->result.mops * most->setup.nr_cpus / fewest->setup.nr_cpus;
	*ret_verdict = (struct drbh_verdict){
		.judgement = drbh_judgement_of(peak, most, straight),
		.straight_mops = straight,
		.peak_cpus = peak->setup.nr_cpus,
		.peak_mops = peak->result.mops,
		.most_cpus = most->setup.nr_cpus,
		.most_mops = most->result.mops,
		.line = line ? line->name : NULL,
		.line_transfers =
			line && most->result.ops
				? (double)line->transfers / (double)most->result.ops
				: 0,
	};
	return true;
}

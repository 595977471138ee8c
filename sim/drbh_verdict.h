/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a scheme's points over more and more CPUs say: does it scale, fall behind or
 * collapse, from where on, and on which line? Two limits decide, both against the scheme's
 * own points, so that a scheme's distance to the others does not matter.
 */
#ifndef LODIC_SIM_DRBH_VERDICT_H
#define LODIC_SIM_DRBH_VERDICT_H

#include "sim/drbh.h"

/* Throughput at the most CPUs below this share of the scheme's own peak: a collapse. The
 * model cannot tell a fifth (doc/validation.md); a half is well beyond that. */
#define DRBH_COLLAPSE_PERCENT 50u
/* Throughput at the most CPUs below this share of a straight line from the fewest CPUs
 * through 0, and no collapse: the scheme falls behind. */
#define DRBH_BEHIND_PERCENT 50u

enum drbh_judgement { DRBH_SCALES, DRBH_FALLS_BEHIND, DRBH_COLLAPSES };

struct drbh_verdict {
	enum drbh_judgement judgement;
	u32 peak_cpus; /* where throughput is highest */
	double peak_mops;
	u32 most_cpus; /* where the judgement is made */
	double most_mops;
	double straight_mops; /* there, if throughput grew in proportion from the fewest */
	const char *line;     /* which moves most there; NULL: none moves */
	double line_transfers; /* of one operation */
};

/* points: nr of one scheme, each with another number of CPUs, in any order. false: fewer
 * than two, so that there is nothing to compare; ret_verdict is untouched. ret_verdict's
 * line points into points. */
bool drbh_judge(const struct drbh_point *points, u32 nr,
                struct drbh_verdict *ret_verdict);

const char *drbh_judgement_name(enum drbh_judgement judgement);

#endif

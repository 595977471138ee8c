/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a scheme's points over more and more CPUs say: does it scale, fall behind or
 * collapse, from where on, and on which line? Two limits decide. Both compare the scheme
 * with itself, so that its distance to other schemes does not matter.
 */
#ifndef LODIC_SIM_DRBH_VERDICT_H
#define LODIC_SIM_DRBH_VERDICT_H

#include "sim/drbh.h"

/* A scheme collapses if its throughput on the most CPUs is below this share of its own
 * peak. The model cannot tell differences of a fifth (doc/validation.md); a half is
 * well beyond that. */
#define DRBH_COLLAPSE_PERCENT 50u
/* A straight line goes from 0 through the scheme's point on the fewest CPUs. A scheme
 * that does not collapse falls behind if it is below this share of that line on the
 * most CPUs. */
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

/* points: nr of one scheme, each with another number of CPUs, in any order. false:
 * there are fewer than two, and ret_verdict is untouched. The line in ret_verdict
 * points into points. */
bool drbh_judge(const struct drbh_point *points, u32 nr,
                struct drbh_verdict *ret_verdict);

const char *drbh_judgement_name(enum drbh_judgement judgement);

#endif

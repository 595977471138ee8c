/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What may come out of a litmus program, by the axioms of five memory models.
 *
 *    SC      Lamport's sequential consistency
 *    TSO     x86's (Alglave et al., TOPLAS'14)
 *    PSO     TSO without the order of stores to different words, as the checker has it: a release
 *            store, or a store behind a release fence, comes after those before it
 *    ARMV8   Pulte et al., POPL'18, compiled as C11 is, and no store goes before a load of its own
 *            task. Acquire loads are LDAPR. Then DMB ISHST is enough for a release fence
 *    RC11    Lahav et al., PLDI'17. A dependent load is relaxed there
 *
 * Each allows what those before it allow. An RMW has a full fence on both sides, and a cas that
 * fails is a relaxed load, as host/host.h says. Light and heavy fences are in none of these models.
 */
#ifndef LODIC_TESTS_SUPPORT_AXIOMS_H
#define LODIC_TESTS_SUPPORT_AXIOMS_H

#include "tests/support/litmus.h"

enum axioms { AXIOMS_SC, AXIOMS_TSO, AXIOMS_PSO, AXIOMS_ARMV8, AXIOMS_RC11, AXIOMS_NR };
#define AXIOMS_MAX 4096u /* outcomes of a program */

struct axioms_outcomes {
	u32 nr;
	struct axioms_outcome {
		u64 outcome;
		u32 may; /* a bit for each of enum axioms */
		u32 met; /* for the caller: 0 at first */
	} of[AXIOMS_MAX];
};

/* Those that one of the models allows. */
void axioms_judge(const struct litmus_program *p, struct axioms_outcomes *ret);
/* NULL: it is none of them. */
struct axioms_outcome *axioms_find(struct axioms_outcomes *o, u64 outcome);

#endif

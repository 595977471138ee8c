/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* How much of the program was seen, the advice, and what to do. */
#ifndef LODIC_CLI_DOCTOR_ADVICE_H
#define LODIC_CLI_DOCTOR_ADVICE_H

#include "cli/doctor/doctor.h"

/* Whether memory has room for what the gain needs; fills in g->fit and the touched bytes. */
void doctor_memory_judge(struct doctor *d, struct doctor_gain *g);
/* It in words; "": it fits. */
const char *doctor_memory_why(const struct doctor *d, const struct doctor_gain *g);
/* From all that is known to d->unseen, the advice, its reason and what to do. */
void doctor_advise(struct doctor *d);
const char *doctor_advice_name(enum doctor_advice advice);

#endif

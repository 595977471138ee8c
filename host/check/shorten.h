/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Makes a schedule that breaks a rule easier to read, and shows it. */
#ifndef LODIC_HOST_CHECK_SHORTEN_H
#define LODIC_HOST_CHECK_SHORTEN_H

#include "host/check/engine.h"

/* Runs the schedule that just failed again, with fewer changes from task to task as long as
 * the same rule breaks. Then prints its interleaving to out. At most a few seconds. */
void shorten_and_show(const struct check_scenario *s, FILE *out);

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Makes a schedule that breaks a rule easier to read, and shows it. */
#ifndef LODIC_CHECKER_SHORTEN_H
#define LODIC_CHECKER_SHORTEN_H

#include "host/check/engine.h"

/* The schedule that just failed, again with fewer changes from task to task, as long as
 * the same rule breaks; then its interleaving to stderr. At most a few seconds. */
void shorten_and_show(const struct checker_scenario *s);

#endif

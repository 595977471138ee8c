/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Makes a schedule that breaks a rule easier to read, and shows it. */
#ifndef LODIC_HOST_CHECK_SHORTEN_H
#define LODIC_HOST_CHECK_SHORTEN_H

#include "host/check/engine.h"

/* The schedule that just failed, again with fewer changes from task to task, as long as
 * the same rule breaks; then its interleaving to stderr. At most a few seconds. */
void shorten_and_show(const struct check_scenario *s);

#endif

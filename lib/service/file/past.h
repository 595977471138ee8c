/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What a service that takes the place of another one learns about a held file. Only the main thread
 * calls these. */
#ifndef LODIC_LIB_SERVICE_FILE_PAST_H
#define LODIC_LIB_SERVICE_FILE_PAST_H

#include "host/host.h"

struct files;
struct held_file;
struct tiers;

struct file_past {
	u64 hits, idle_since_ns;
	u32 nr_opens; /* by clients */
	bool kept;
	u32 tier, tier_said; /* enum tier, enum tier_sayer */
};

struct file_past past_of(const struct held_file *f);
/* The file in slot, which has one open, goes on from its past. keep_open: a program is to come back
 * for it. Otherwise it is closed, and counts as closed since its past says. */
void past_go_on(struct files *s, struct tiers *tiers, u32 slot,
                const struct file_past *past, bool keep_open);

#endif

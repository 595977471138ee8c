/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See past.h. */
#include "lib/service/file/files.h"
#include "lib/service/file/past.h"
#include "lib/service/file/state.h"
#include "lib/service/tier/policy.h"

struct file_past past_of(const struct held_file *f)
{
	return (struct file_past){ .hits = f->hits,
		                   .idle_since_ns = f->idle_since_ns,
		                   .nr_opens = f->nr_opens,
		                   .kept = f->kept,
		                   .tier = f->where.tier,
		                   .tier_said = f->where.tier_said };
}

void past_go_on(struct files *s, struct tiers *tiers, u32 slot,
                const struct file_past *past, bool keep_open)
{
	struct held_file *f = files_at(s, slot);

	f->hits = past->hits;
	if (past->kept)
		files_keep(s, f->dev, f->ino);
	policy_stays(tiers, &f->where, (enum tier_sayer)past->tier_said,
	             (enum tier)past->tier);
	if (keep_open)
		return;
	files_close(s, slot, f->id, 1);
	f->idle_since_ns = past->idle_since_ns;
}

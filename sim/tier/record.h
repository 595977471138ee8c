/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a running cache wrote down: `lodic serve --policy NAME --policy-record FILE`. Each call
 * of core/kloc is a line, and so is each decision (lib/service/tier/policy.c). The simulator makes
 * the same calls again and compares (record_replay()), or takes the file as a trace of what
 * programs did to their files (record_open()).
 */
#ifndef LODIC_SIM_TIER_RECORD_H
#define LODIC_SIM_TIER_RECORD_H

#include "sim/tier/event.h"

#define RECORD_MAGIC "begin "

/* The record at path as a source: opens, closes, and the frames that were used. How often a frame
 * was used it tells only as far as the cache counts visits: three, and then no more until it looks
 * again. Prints what is wrong. 0, -ENOENT, -EINVAL or -ENOMEM. */
int record_open(const char *path, struct tier_source **ret_source);

struct record_result {
	char policy[32];
	u64 nr_calls, nr_decisions;
};

/* Makes the record's calls on a core/kloc of its own. 0: each decision is the recorded one, and
 * none is missing. -EINVAL: it is not, or the file is no such record; it has said which line. */
int record_replay(const char *path, struct record_result *ret_result);

#endif

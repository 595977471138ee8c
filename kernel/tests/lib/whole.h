/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Cases of hold.c that are sequences of their own. Each begins with the file mapped and its
 * first page present. A sequence fails the subtest itself.
 */
#ifndef LODIC_TESTS_WHOLE_H
#define LODIC_TESTS_WHOLE_H

#include "counters.h"
#include "held.h"

/* Fails the subtest unless nr local references taken since then are out. */
void whole_expect_out(const struct counters *then, u32 nr);

void whole_two_frames(struct held *h);
void whole_not_mapped_any_more(struct held *h);
void whole_killed(struct held *h);
void whole_exec(struct held *h);
void whole_past_the_max(struct held *h);
void whole_seal_write(struct held *h);
void whole_table_reused(struct held *h);
void whole_switch_on(struct held *h);
void whole_stale_look_up(struct held *h);

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the tiers know of a held file. It lies in struct held_file. */
#ifndef LODIC_LIB_SERVICE_TIER_WHERE_H
#define LODIC_LIB_SERVICE_TIER_WHERE_H

#include "host/host.h"

/* Where the blocks of a held file belong. */
struct tier_file {
	u32 tier;        /* enum tier: where new blocks go, if no policy decides */
	u32 tier_said;   /* enum tier_sayer */
	u32 cpu;         /* on which a program has opened the file last */
	u32 knode;       /* of the policy */
	bool replicates; /* its holds have a copy on each node */
};

#endif

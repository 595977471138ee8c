/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See claim.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>

#include "lib/client/claim.h"

struct claim *claim_make_none(struct lodic_file *file, u64 reason)
{
	struct claim *claim = calloc(1, sizeof(*claim));

	if (!claim)
		return NULL;
	claim->file = file;
	claim->generation = GENERATION_UNCLAIMED;
	claim->reason = reason;
	return claim;
}

struct claim *claim_make(struct lodic_file *file, const struct segment *segment,
                         const struct channel_reply *reply)
{
	const struct wire_reply *wire = reply->wire;
	int err = reply->error;
	struct claim *claim;

	if (!err && wire->file.slot >= segment->arena.nr_files)
		err = -EPROTO;
	claim = claim_make_none(file, (u64)-err);
	if (!claim || err)
		return claim;
	claim->slot = (u32)wire->file.slot;
	claim->core.id = (u32)wire->file.id;
	claim->first = block_id(claim->core.id, 0);
	claim->size = wire->file.size;
	claim->core.proof = &segment->arena.files[claim->slot];
	claim->generation = segment->generation;
	return claim;
}

bool claim_is_good(const struct segment *segment, const struct claim *claim)
{
	return segment && claim->generation == segment->generation &&
	       segment_alive(segment) &&
	       file_proof_holds(claim->core.proof, claim->core.id);
}

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See claim.h. */
#include <errno.h>

#include "lib/client/claim.h"
#include "lib/port.h"

struct claim *claim_make_none(struct lodic_file *file, u64 reason)
{
	struct claim *claim = port_alloc(sizeof(*claim));

	if (!claim)
		return NULL;
	claim->file = file;
	claim->generation = GENERATION_UNCLAIMED;
	claim->reason = reason;
	return claim;
}

int claim_refused(const struct segment *segment, const struct channel_reply *reply)
{
	if (reply->error)
		return reply->because;
	return reply->wire->file.slot < segment->arena.nr_files ? 0 : -EPROTO;
}

void claim_renew(struct claim *claim, const struct segment *segment,
                 const struct wire_reply *wire)
{
	claim->slot = (u32)wire->file.slot;
	claim->core.id = (u32)wire->file.id;
	claim->told = false;
	host_fence_release(); /* CL2; partner: claim_size() */
	host_store_relaxed((u64 *)&claim->core.proof,
	                   (u64)&segment->arena.files[claim->slot]);
	host_store_relaxed(&claim->size, wire->file.size);
	host_store_release(&claim->first, block_id(claim->core.id, 0));
}

struct claim *claim_make(struct lodic_file *file, const struct segment *segment,
                         const struct wire_reply *wire)
{
	struct claim *claim = claim_make_none(file, 0);

	if (!claim)
		return NULL;
	claim_renew(claim, segment, wire);
	claim->generation = segment->generation;
	return claim;
}

bool claim_is_good(const struct segment *segment, const struct claim *claim)
{
	return segment && claim->generation == segment->generation &&
	       segment_alive(segment) &&
	       file_proof_holds(claim->core.proof, claim->core.id);
}

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See claim.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>

#include "lib/client/claim.h"

struct claim *claim_make(struct segment *segment, struct lodic_file *file, int fd)
{
	struct wire_request request = { .version = WIRE_VERSION, .op = WIRE_FILE_OPEN };
	struct wire_reply reply;
	struct claim *claim = calloc(1, sizeof(*claim));
	int err;

	if (!claim)
		return NULL;
	claim->file = file;
	claim->generation = GENERATION_UNCLAIMED;
	claim->reason = ESTALE;
	if (!segment)
		return claim;
	err = segment_request(segment, &request, fd, REQUEST_TIMEOUT_MS, &reply, NULL,
	                      NULL);
	if (!err && reply.file.slot >= segment->arena.nr_files)
		err = -EPROTO;
	if (err) {
		claim->reason = (u64)-err;
		return claim;
	}
	claim->slot = (u32)reply.file.slot;
	claim->core.id = (u32)reply.file.id;
	claim->first = block_id(claim->core.id, 0);
	claim->size = reply.file.size;
	claim->core.proof = &segment->arena.files[claim->slot];
	claim->generation = segment->generation;
	return claim;
}

void claim_release(struct segment *segment, const struct claim *claim)
{
	struct wire_request request = { .version = WIRE_VERSION,
		                        .op = WIRE_FILE_CLOSE,
		                        .a = claim->slot,
		                        .b = claim->core.id };
	struct wire_reply reply;

	if (segment && claim->generation == segment->generation &&
	    segment_alive(segment))
		segment_request(segment, &request, -1, REQUEST_TIMEOUT_MS, &reply, NULL,
		                NULL);
}

bool claim_is_good(const struct segment *segment, const struct claim *claim)
{
	return segment && claim->generation == segment->generation &&
	       segment_alive(segment) &&
	       file_proof_holds(claim->core.proof, claim->core.id);
}

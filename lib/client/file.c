/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Files: a descriptor of one's own, and the claim on the service's cached copy. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/client/client.h"

static int check_descriptor(int fd)
{
	struct stat st;
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fstat(fd, &st) != 0)
		return -errno;
	if ((flags & O_ACCMODE) == O_WRONLY || flags & O_PATH)
		return -EBADF;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	if (!S_ISREG(st.st_mode))
		return -ENODEV;
	return (flags & O_ACCMODE) == O_RDONLY ? 0 : -EINVAL;
}

/* Asks segment for the file. Never fails: an unclaimed claim says why. lodic.lock. */
static struct claim *claim_make(struct segment *segment, struct lodic_file *file)
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
	err = segment_request(segment, &request, file->fd, REQUEST_TIMEOUT_MS, &reply,
	                      NULL, NULL);
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

static void claim_release(struct lodic *lodic, const struct claim *claim)
{
	struct wire_request request = { .version = WIRE_VERSION,
		                        .op = WIRE_FILE_CLOSE,
		                        .a = claim->slot,
		                        .b = claim->core.id };
	struct wire_reply reply;

	if (lodic->segment && claim->generation == lodic->segment->generation &&
	    segment_alive(lodic->segment))
		segment_request(lodic->segment, &request, -1, REQUEST_TIMEOUT_MS,
		                &reply, NULL, NULL);
}

/* Is the claim worth keeping: in the current segment, and not revoked? */
static bool claim_is_good(const struct lodic *lodic, const struct claim *claim)
{
	return lodic->segment && claim->generation == lodic->segment->generation &&
	       segment_alive(lodic->segment) &&
	       file_proof_holds(claim->core.proof, claim->core.id);
}

void file_reclaim(struct lodic_file *file)
{
	struct lodic *lodic = file->lodic;
	struct segment *segment;
	struct claim *claim;

	/* Before the lock: the readers of a file that is not cached come by here each time,
	 * and must not meet in a line that they all write. */
	if (lodic_forked(lodic) ||
	    host_now_ns() < host_load_relaxed(&file->retry.at_ns) ||
	    pthread_mutex_trylock(&lodic->lock) != 0)
		return;
	if (claim_is_good(lodic, file->claim) || !retry_due(&file->retry))
		goto out_unlock;
	segment = segment_get(lodic);
	if (!segment)
		goto out_unlock;
	claim = claim_make(segment, file);
	segment_put(segment);
	if (!claim)
		goto out_unlock;
	claim_release(lodic, file->claim);
	if (claim->generation != GENERATION_UNCLAIMED)
		retry_reset(&file->retry);
	claim->older = file->claim;
	if (claim->older->generation == GENERATION_UNCLAIMED &&
	    claim->generation == GENERATION_UNCLAIMED) {
		/* No use in a chain of refusals. Readers look at reason and generation
		 * only, so the old claim can take the new one's reason. */
		host_store_relaxed(&file->claim->reason, claim->reason);
		free(claim);
	} else {
		host_store_release((u64 *)&file->claim, (u64)claim);
		if (++file->nr_claims == MAX_CLAIMS)
			host_store_relaxed(&file->retry.at_ns, ~(u64)0); /* no more */
	}
out_unlock:
	pthread_mutex_unlock(&lodic->lock);
}

static bool tie_is_good(const struct lodic_context *context, const struct claim *claim)
{
	const struct seat *seat = context->seat;

	return claim->generation == seat->generation &&
	       cache_vouch(&seat->core, &claim->core);
}

const struct claim *file_tie(struct lodic_context *context, struct lodic_file *file)
{
	const struct claim *claim = file_claim(file);

	if (tie_is_good(context, claim))
		return claim;
	context_reseat(context);
	file_reclaim(file);
	claim = file_claim(file);
	return tie_is_good(context, claim) ? claim : NULL;
}

EXPORT int lodic_open(struct lodic *lodic, int fd, struct lodic_file **ret_file)
{
	struct lodic_file *file;
	struct segment *segment = NULL;
	int err;

	if (!lodic || !ret_file)
		return -EINVAL;
	err = check_descriptor(fd);
	if (err)
		return err;
	file = calloc(1, sizeof(*file));
	if (!file)
		return -ENOMEM;
	file->lodic = lodic;
	file->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (file->fd < 0) {
		err = -errno;
		free(file);
		return err;
	}
	if (!lodic_forked(lodic)) {
		pthread_mutex_lock(&lodic->lock);
		segment = segment_get(lodic);
		file->claim = claim_make(segment, file);
		if (segment)
			segment_put(segment);
		pthread_mutex_unlock(&lodic->lock);
	} else {
		file->claim = claim_make(NULL, file);
	}
	if (!file->claim) {
		close(file->fd);
		free(file);
		return -ENOMEM;
	}
	*ret_file = file;
	return 0;
}

EXPORT void lodic_close(struct lodic_file *file)
{
	struct claim *claim, *older;

	if (!file)
		return;
	if (!lodic_forked(file->lodic)) {
		pthread_mutex_lock(&file->lodic->lock);
		claim_release(file->lodic, file->claim);
		pthread_mutex_unlock(&file->lodic->lock);
	}
	for (claim = file->claim; claim; claim = older) {
		older = claim->older;
		free(claim);
	}
	close(file->fd);
	free(file);
}

EXPORT int lodic_file_cached(const struct lodic_file *file)
{
	const struct claim *claim = file_claim(file);
	struct lodic *lodic = file->lodic;
	bool good;

	if (claim->generation == GENERATION_UNCLAIMED)
		return -(int)host_load_relaxed(&claim->reason);
	if (lodic_forked(lodic))
		return -ESTALE;
	pthread_mutex_lock(&lodic->lock);
	good = claim_is_good(lodic, claim);
	pthread_mutex_unlock(&lodic->lock);
	return good ? 0 : -ESTALE;
}

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See file.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/client/file.h"

static int file_check_descriptor(int fd)
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

void file_reclaim(struct lodic_file *file)
{
	struct lodic *lodic = file->lodic;
	struct segment *segment;
	struct claim *claim;

	/* Before the lock, because every read of a file that is not cached comes by here.
	 * Its readers must not meet in a cache line that they all write. */
	if (attach_forked(lodic) ||
	    host_now_ns() < host_load_relaxed(&file->retry.at_ns) ||
	    pthread_mutex_trylock(&lodic->lock) != 0)
		return;
	if (claim_is_good(lodic->segment, file->claim) || !retry_due(&file->retry))
		goto out_unlock;
	segment = attach_segment_get(lodic);
	if (!segment)
		goto out_unlock;
	claim = claim_make(segment, file, file->fd);
	segment_put(segment);
	if (!claim)
		goto out_unlock;
	claim_release(lodic->segment, file->claim);
	if (claim->generation != GENERATION_UNCLAIMED)
		retry_reset(&file->retry);
	claim->older = file->claim;
	if (claim->older->generation == GENERATION_UNCLAIMED &&
	    claim->generation == GENERATION_UNCLAIMED) {
		/* A chain of refusals would be of no use. Readers look at reason and
		 * generation only, so the old claim can take the new one's reason. */
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

static bool file_tie_is_good(const struct lodic_context *context,
                             const struct claim *claim)
{
	const struct seat *seat = context->seat;

	return claim->generation == seat->generation &&
	       cache_vouch(&seat->core, &claim->core);
}

const struct claim *file_tie(struct lodic_context *context, struct lodic_file *file)
{
	const struct claim *claim = file_claim(file);

	if (file_tie_is_good(context, claim))
		return claim;
	context_reseat(context);
	file_reclaim(file);
	claim = file_claim(file);
	return file_tie_is_good(context, claim) ? claim : NULL;
}

EXPORT int lodic_open(struct lodic *lodic, int fd, struct lodic_file **ret_file)
{
	struct lodic_file *file;
	struct segment *segment = NULL;
	int err;

	if (!lodic || !ret_file)
		return -EINVAL;
	err = file_check_descriptor(fd);
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
	if (!attach_forked(lodic)) {
		pthread_mutex_lock(&lodic->lock);
		segment = attach_segment_get(lodic);
		file->claim = claim_make(segment, file, file->fd);
		if (segment)
			segment_put(segment);
		pthread_mutex_unlock(&lodic->lock);
	} else {
		file->claim = claim_make(NULL, file, file->fd);
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
	if (!attach_forked(file->lodic)) {
		pthread_mutex_lock(&file->lodic->lock);
		claim_release(file->lodic->segment, file->claim);
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
	if (attach_forked(lodic))
		return -ESTALE;
	pthread_mutex_lock(&lodic->lock);
	good = claim_is_good(lodic->segment, claim);
	pthread_mutex_unlock(&lodic->lock);
	return good ? 0 : -ESTALE;
}

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See file.h. */
#include <errno.h>

#include "lib/client/error.h"
#include "lib/client/file.h"
#include "lib/port.h"

/* A blocking function gives the old claim back and opens the file. If the service has hung
 * up it does both once more, and each may need a connection first. */
#define MAX_STEPS 8

static int file_check_descriptor(int fd)
{
	struct port_file file;
	unsigned int mode;
	int err = port_mode(fd, &mode);

	if (!err)
		err = port_look(fd, &file);
	if (err)
		return err;
	if (!(mode & PORT_MAY_READ) || mode & PORT_NAMES_ONLY)
		return -EBADF;
	if (file.kind == PORT_FILE_FOLDER)
		return -EISDIR;
	if (file.kind != PORT_FILE_REGULAR)
		return -ENODEV;
	return mode & PORT_MAY_WRITE ? reason_encode(LODIC_REASON_WRITABLE) : 0;
}

/* lodic.lock is held. The one before stays: others may be looking at it. */
static void file_publish(struct lodic_file *file, struct claim *claim)
{
	host_store_release((u64 *)&file->claim, (u64)claim);
}

/* The file's claim in this segment, as the service says. -ENOMEM. */
static int file_take(struct lodic_file *file, const struct wire_reply *wire)
{
	const struct segment *segment = file->lodic->segment;
	struct claim *claim = file->claimed;

	if (claim && claim->generation == segment->generation) {
		claim_renew(claim, segment, wire);
	} else {
		claim = claim_make(file, segment, wire);
		if (!claim)
			return -ENOMEM;
		claim->older = file->claimed;
		file->claimed = claim;
	}
	file_publish(file, claim);
	return 0;
}

/* The service has answered FILE_OPEN, to whatever thread has looked. */
static void file_answered(void *owner, const struct channel_reply *reply)
{
	struct lodic_file *file = owner;
	int err = claim_refused(file->lodic->segment, reply);

	if (!err)
		err = file_take(file, reply->wire);
	if (err == -ETIMEDOUT)
		err = reason_encode(LODIC_REASON_NO_ANSWER);
	/* The service has gone, or another one has its place: attach_step() says when to ask. */
	if (!err || err == -ECONNRESET)
		retry_reset(&file->retry);
	else
		retry_failed(&file->retry);
	if (err) {
		host_store_relaxed(&file->none->reason, (u64)-err);
		file_publish(file, file->none);
	}
}

static int file_ask(struct lodic_file *file)
{
	static const struct wire_request request = { .version = WIRE_VERSION,
		                                     .op = WIRE_FILE_OPEN };

	return attach_ask(file->lodic, &request, file->fd, file_answered, file);
}

/* The request that gives a claim back. false: the service need not know. lodic.lock is
 * held. */
static bool file_must_tell(struct lodic_file *file, struct wire_request *ret_request)
{
	struct claim *claim = file->claim;

	if (claim->told || claim->generation == GENERATION_UNCLAIMED ||
	    claim->generation != file->lodic->generation)
		return false;
	claim->told = true;
	*ret_request = (struct wire_request){ .version = WIRE_VERSION,
		                              .op = WIRE_FILE_CLOSE,
		                              .a = claim->slot,
		                              .b = claim->core.id };
	return true;
}

/* One step towards a good claim; lodic.lock is held. 0: there is one, or it is not time.
 * -EINPROGRESS: a reply is on its way. Otherwise why there is no service. */
static int file_step(struct lodic_file *file)
{
	struct lodic *lodic = file->lodic;
	struct wire_request request;
	int err = attach_step(lodic);

	/* Why the last service refused it says nothing any more. */
	if (err == -ENOENT || err == -ECONNREFUSED)
		host_store_relaxed(&file->none->reason,
		                   (u64)-reason_encode(LODIC_REASON_AWAY));
	if (err || claim_is_good(lodic->segment, file->claim) ||
	    !retry_due(&file->retry))
		return err;
	if (file_must_tell(file, &request))
		err = attach_ask(lodic, &request, -1, channel_ignore, NULL);
	else
		err = file_ask(file);
	return err ? err : -EINPROGRESS;
}

void file_reclaim(struct lodic_file *file)
{
	struct lodic *lodic = file->lodic;
	int err;

	/* Before the lock, because every read of a file that is not cached comes by here.
	 * Its readers must not meet in a cache line that they all write. */
	if (attach_forked(lodic) || !retry_due(&file->retry) || !attach_trylock(lodic))
		return;
	err = file_step(file);
	if (err == -EINPROGRESS)
		retry_put_off(&file->retry, host_now_ns() + RETRY_LOOK_NS);
	else if (err)
		retry_put_off(&file->retry, host_load_relaxed(&lodic->retry.at_ns));
	attach_unlock(lodic);
}

/* The same, but waits; lodic.lock is held. */
static void file_reclaim_wait(struct lodic_file *file)
{
	int tries = 0;
	int err;

	/* Two requests at most, and each may find that the service has hung up. */
	while (((err = file_step(file)) == -EINPROGRESS || err == -ECONNRESET) &&
	       tries++ < MAX_STEPS)
		channel_wait(&file->lodic->channel);
}

int file_claim_wait(struct lodic_file *file, const struct claim **ret_claim)
{
	struct lodic *lodic = file->lodic;
	int err = 0;

	if (!claim_is_good(lodic->segment, file->claim)) {
		err = attach_start(lodic);
		file_reclaim_wait(file);
	}
	if (claim_is_good(lodic->segment, file->claim)) {
		*ret_claim = file->claim;
		return 0;
	}
	if (err == -EAGAIN)
		return -ETIMEDOUT; /* it lets nobody in */
	return err && err != -ENOENT && err != -ECONNREFUSED ? err : -ESTALE;
}

void file_claim_anew(struct lodic_file *file)
{
	static const struct wire_request open = { .version = WIRE_VERSION,
		                                  .op = WIRE_FILE_OPEN };

	attach_call_same(file->lodic, file->claim->generation, &open, file->fd,
	                 file_answered, file);
}

int file_why(const struct lodic_file *file, bool there)
{
	const struct claim *claim = file_claim(file);

	if (claim->generation == GENERATION_UNCLAIMED)
		return -(int)host_load_relaxed(&claim->reason);
	if (attach_forked(file->lodic))
		return reason_join(LODIC_REASON_FORKED, -ESTALE);
	return reason_encode(there ? LODIC_REASON_WRITTEN : LODIC_REASON_AWAY);
}

int file_fails(const struct lodic_file *file, const struct lodic_context *context,
               int err)
{
	bool there;

	switch (err) {
	case -EAGAIN: return error_because(LODIC_REASON_NOT_HERE_YET);
	case -ENODATA: return error_because(LODIC_REASON_PAST_END);
	case -EINVAL: return error_because(LODIC_REASON_ARGUMENT);
	/* Of a file it would mean another share. */
	case -EDQUOT: return error_because(LODIC_REASON_QUOTA);
	case -ESTALE:
		there = file_claim(file)->generation == context->seat->generation;
		return error_plain(
			reason_join(reason_find(file_why(file, there)), err));
	default: error_forget(); return err;
	}
}

int file_uncached(const struct lodic_file *file, off_t offset)
{
	struct port_file now;

	return port_look(file->fd, &now) == 0 && (u64)offset >= now.bytes ? -ENODATA
	                                                                  : -ESTALE;
}

static bool file_tie_is_good(const struct lodic_context *context,
                             const struct claim *claim)
{
	const struct seat *seat = context->seat;
	struct cache_file core;

	if (claim->generation != seat->generation)
		return false;
	core = claim_core(claim, claim_first(claim));
	return cache_vouch(&seat->core, &core);
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

const struct claim *file_tie_wait(struct lodic_context *context,
                                  struct lodic_file *file)
{
	const struct claim *claim = file_claim(file);
	struct lodic *lodic = file->lodic;

	if (file_tie_is_good(context, claim))
		return claim;
	if (attach_forked(lodic))
		return NULL;
	attach_lock(lodic);
	attach_start(lodic);
	context_reseat_wait(context);
	file_reclaim_wait(file);
	attach_unlock(lodic);
	claim = file_claim(file);
	return file_tie_is_good(context, claim) ? claim : NULL;
}

static void file_free(struct lodic_file *file)
{
	struct claim *claim, *older;

	for (claim = file->claimed; claim; claim = older) {
		older = claim->older;
		port_free(claim);
	}
	port_free(file->none);
	port_shut(file->fd);
	misuse_closed(&file->misuse, file);
}

/* A description that the library reads by. A read by the caller's would have to be aligned
 * if that is O_DIRECT, and its result would depend on what is cached. */
static int file_own_descriptor(int fd)
{
	unsigned int mode;
	int own;

	if (port_mode(fd, &mode) != 0 || !(mode & PORT_DIRECT))
		return port_dup(fd);
	own = port_reopen(fd);
	if (own >= 0 || own == -EMFILE || own == -ENFILE)
		return own;
	return reason_encode(LODIC_REASON_DIRECT);
}

static int file_open(struct lodic *lodic, int fd, struct lodic_file **ret_file)
{
	struct lodic_file *file;
	int err;

	if (!lodic || !ret_file)
		return reason_encode(LODIC_REASON_ARGUMENT);
	err = file_check_descriptor(fd);
	if (err)
		return err;
	file = port_alloc(sizeof(*file));
	if (!file)
		return -ENOMEM;
	file->lodic = lodic;
	misuse_opened(&file->misuse, lodic->mark);
	file->fd = file_own_descriptor(fd);
	if (file->fd < 0) {
		err = file->fd;
		port_free(file);
		return err;
	}
	file->none = file->claim =
		claim_make_none(file, (u64)-reason_encode(LODIC_REASON_AWAY));
	if (!file->none) {
		file_free(file);
		return -ENOMEM;
	}
	attach_get(lodic);
	if (!attach_forked(lodic)) {
		attach_lock(lodic);
		attach_start(lodic);
		file_reclaim_wait(file);
		attach_unlock(lodic);
	}
	*ret_file = file;
	return 0;
}

EXPORT int lodic_open(struct lodic *lodic, int fd, struct lodic_file **ret_file)
{
	int state, err;

	error_forget();
	/* A thread that is cancelled half-way would leave a file that nobody knows. */
	state = port_cancel_off();
	err = file_open(lodic, fd, ret_file);
	port_cancel_as(state);
	return error_plain(err);
}

EXPORT void lodic_close(struct lodic_file *file)
{
	struct wire_request request;
	struct lodic *lodic;
	int state;

	if (!file)
		return;
	misuse_file(&file->misuse);
	state = port_cancel_off();
	lodic = file->lodic;
	if (!attach_forked(lodic)) {
		attach_lock(lodic);
		channel_wait(&lodic->channel); /* what is under way may be for it */
		if (file_must_tell(file, &request))
			attach_tell(lodic, file->claim->generation, &request);
		attach_unlock(lodic);
	}
	file_free(file);
	attach_put(lodic);
	port_cancel_as(state);
}

EXPORT int lodic_file_cached(const struct lodic_file *file)
{
	const struct claim *claim = file_claim(file);
	struct lodic *lodic = file->lodic;
	bool good = false, there = false;

	error_forget();
	if (claim->generation != GENERATION_UNCLAIMED && !attach_forked(lodic)) {
		attach_lock(lodic);
		good = claim_is_good(lodic->segment, claim);
		there = lodic->segment && segment_alive(lodic->segment);
		attach_unlock(lodic);
	}
	if (good)
		return 0;
	return error_plain(file_why(file, there));
}

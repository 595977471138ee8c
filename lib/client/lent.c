/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See lent.h. */
#include <errno.h>

#include "lib/client/holder.h"
#include "lib/client/lent.h"
#include "lib/huge.h"
#include "lib/service/service.h"
#include "lib/settings.h"

/* So long an answer waits for the call that has asked for it (D14). Our choice: a call looks at
 * least every 2 ms. */
#define LENT_TAKE_NS UINT64_C(10000000)

/* What a reader copies of a lent file (D12). */
struct lent_claim {
	u64 generation;
	u64 size;
	struct cache_file core;
};

bool lent_socket_of(u32 user, char path[LENT_SOCKET_BYTES])
{
	return path_socket_of(user, path, LENT_SOCKET_BYTES) == 0;
}

_Static_assert(LENT_NO_USER == SETTINGS_NO_USER, "nobody has one number");

int lent_attach(const char *socket, u32 trusted, struct lodic **ret_lodic)
{
	/* See attach_take_options(). */
	return settings_privileged() ? -EPERM : attach_later(socket, trusted, ret_lodic);
}

int lent_context(struct lodic *lodic, struct lodic_context **ret_context)
{
	int err = context_make(lodic, ret_context);

	if (!err)
		(*ret_context)->reads_only = true;
	return err;
}

void lent_connect(struct lodic *lodic)
{
	if (!attach_trylock(lodic))
		return;
	attach_step(lodic);
	attach_unlock(lodic);
}

/* D12, the writer's side. */
static void lent_write(struct lent_file *file, u64 name, const struct lent_claim *claim)
{
	u64 version = host_load_relaxed(&file->version);

	host_store_relaxed(&file->version, version + 1);
	host_fence_release();
	host_store_relaxed(&file->name, name);
	host_store_relaxed(&file->generation, claim->generation);
	host_store_relaxed(&file->id, claim->core.id);
	host_store_relaxed(&file->size, claim->size);
	host_store_relaxed(&file->proof, (u64)claim->core.proof);
	host_store_release(&file->version, version + 2);
}

/* D12, the reader's side. false: the place is for another file (D11), or changes just now. */
static inline bool lent_copy(const struct lent_file *file, u64 name,
                             struct lent_claim *ret)
{
	u64 version = host_load_acquire(&file->version);
	u64 found = host_load_relaxed(&file->name);

	ret->generation = host_load_relaxed(&file->generation);
	ret->size = host_load_relaxed(&file->size);
	ret->core.id = (u32)host_load_relaxed(&file->id);
	ret->core.proof = (const struct file_proof *)host_load_relaxed(&file->proof);
	host_fence_acquire();
	return found == name && version % 2 == 0 &&
	       host_load_relaxed(&file->version) == version;
}

static const struct lent_claim lent_none = { .generation = GENERATION_NONE };

void lent_begin(struct lent_file *file, u64 name, u64 dev, u64 ino)
{
	lent_write(file, name, &lent_none);
	file->dev = dev;
	file->ino = ino;
	file->told = true;
	host_store_relaxed(&file->reason, 0);
	retry_reset(&file->retry);
}

/* The service has a file open for this process that nobody here wants (D13). */
static void lent_refuse(struct lodic *lodic, const struct wire_reply *wire)
{
	const struct wire_request request = { .version = WIRE_VERSION,
		                              .op = WIRE_FILE_CLOSE,
		                              .a = wire->file.slot,
		                              .b = wire->file.id };

	attach_ask(lodic, &request, -1, channel_ignore, NULL);
}

/* The service has answered FILE_OPEN, to whatever thread has looked. */
static void lent_answered(void *owner, const struct channel_reply *reply)
{
	struct lent_file *file = owner;
	const struct wire_reply *wire = reply->wire;
	struct lodic *lodic = file->lodic;
	const struct segment *s = lodic->segment;
	u64 asked = file->asked;
	struct lent_claim claim;
	int err = reply->because;

	file->asked = 0;
	if (!err && wire->file.slot >= s->arena.nr_files)
		err = -EPROTO;
	if (!err && (asked != file->name || wire->file.dev != file->dev ||
	             wire->file.ino != file->ino)) {
		lent_refuse(lodic, wire);
		err = -ESTALE;
	}
	if (asked != file->name)
		return;
	/* A service that has gone says nothing of the file. */
	host_store_relaxed(&file->reason, err == -ECONNRESET ? 0 : (u64)-err);
	if (err == -ECONNRESET)
		retry_reset(&file->retry); /* attach_step() says when to ask */
	else if (err)
		retry_failed(&file->retry);
	if (err)
		return;
	retry_reset(&file->retry);
	claim = (struct lent_claim){ .generation = s->generation,
		                     .size = wire->file.size,
		                     .core = { .id = (u32)wire->file.id } };
	claim.core.proof = &s->arena.files[wire->file.slot];
	file->slot = wire->file.slot;
	file->told = false;
	lent_write(file, file->name, &claim);
}

static bool lent_is_good(const struct lodic *lodic, const struct lent_file *file)
{
	const struct segment *s = lodic->segment;

	return s && file->generation == s->generation && segment_alive(s) &&
	       file_proof_holds((const struct file_proof *)file->proof, (u32)file->id);
}

/* Does the service that is there now have the file open for this process? */
static bool lent_must_tell(const struct lodic *lodic, const struct lent_file *file)
{
	return !file->told && file->generation != GENERATION_NONE &&
	       file->generation == lodic->generation;
}

static int lent_tell(struct lodic *lodic, struct lent_file *file)
{
	const struct wire_request request = { .version = WIRE_VERSION,
		                              .op = WIRE_FILE_CLOSE,
		                              .a = file->slot,
		                              .b = file->id };
	int err = attach_ask(lodic, &request, -1, channel_ignore, NULL);

	file->told |= !err;
	return err;
}

/* One step towards a good claim; lodic.lock is held. Results as file_step(). */
static int lent_ask(struct lodic *lodic, struct lent_file *file, int fd, u64 missed,
                    u64 nr_missed)
{
	const struct wire_request open = { .version = WIRE_VERSION,
		                           .op = WIRE_FILE_OPEN,
		                           .a = missed,
		                           .b = nr_missed };
	int err = attach_step(lodic);

	/* A file that was read need not wait for the answers about others. */
	if (err == -EINPROGRESS && nr_missed > 0 && lodic->greeted &&
	    channel_has_room(&lodic->channel))
		err = 0;
	if (err || lent_is_good(lodic, file) || file->asked || !retry_due(&file->retry))
		return err;
	if (lent_must_tell(lodic, file)) {
		err = lent_tell(lodic, file);
	} else {
		file->lodic = lodic;
		file->asked = file->name;
		err = attach_ask(lodic, &open, fd, lent_answered, file);
		if (err)
			file->asked = 0;
	}
	return err ? err : -EINPROGRESS;
}

void lent_step(struct lodic_context *context, struct lent_file *file, int fd,
               u64 offset, u64 bytes)
{
	u64 first = offset >> BLOCK_SHIFT;
	u64 nr = ((offset + bytes + BLOCK_BYTES - 1) >> BLOCK_SHIFT) - first;
	struct lodic *lodic = context->lodic;
	int err;

	context_reseat(context);
	if (!retry_due(&file->retry) || !attach_trylock(lodic))
		return;
	err = lent_ask(lodic, file, fd, first, nr);
	if (err == -EINPROGRESS)
		retry_put_off(&file->retry, host_now_ns() + RETRY_LOOK_NS);
	else if (err)
		retry_put_off(&file->retry, host_load_relaxed(&lodic->retry.at_ns));
	attach_unlock(lodic);
}

/* The step of a call that looks for what the service has answered HOLD. */
struct lent_wish {
	const struct lent_take *take;
	bool answered;
	int error;
};

/* The service has answered, to whatever thread has looked (D14). */
static void lent_held(void *owner, const struct channel_reply *reply)
{
	struct lent_file *file = owner;
	struct lent_wish *w = file->wish;
	u64 turn = file->hold_asked;

	file->hold_asked = 0;
	if (!w || *w->take->turn != turn)
		return;
	w->answered = true;
	w->error = reply->because;
	if (!w->error && reply->nr_fds != 1)
		w->error = -EPROTO;
	if (!w->error)
		w->error = holder_verify(reply->fds[0], reply->wire, 0, w->take->bytes);
	if (!w->error)
		w->take->take(w->take->ctx, reply->fds[0]);
}

/* Is an answer on its way that another call for a hold is about to take? */
static bool lent_is_anothers(const struct lodic *lodic, const struct lent_file *file,
                             const struct lent_take *take)
{
	const struct channel *c = &lodic->channel;

	return c->done == lent_held &&
	       !((const struct lent_file *)c->owner)->hold_yields &&
	       (c->owner != file || file->hold_asked != *take->turn) &&
	       host_now_ns() < c->deadline_ns - REQUEST_TIMEOUT_NS + LENT_TAKE_NS;
}

/* The service has hung up since it answered FILE_OPEN, and closed what this process had open. */
static void lent_claim_anew(struct lent_file *file)
{
	lent_write(file, file->name, &lent_none);
	retry_reset(&file->retry);
}

/* What the answer means, for lent_hold(). */
static int lent_hold_result(struct lent_file *file, int err)
{
	switch (reason_error(err)) {
	case -EINPROGRESS:
	case -EAGAIN: return -EALREADY;
	case -EINVAL: lent_claim_anew(file); return -EINPROGRESS;
	case -ECONNRESET: return -EINPROGRESS;
	case -ETIMEDOUT: return -ENOTCONN;
	default: return err;
	}
}

/* Asks for the whole file. The channel is free. */
static int lent_ask_hold(struct lodic *lodic, struct lent_file *file,
                         const struct lent_take *take)
{
	const struct wire_request request = { .version = WIRE_VERSION,
		                              .op = WIRE_HOLD,
		                              .a = file->id,
		                              .c = take->bytes };
	int err;

	if (file->size != take->bytes)
		return -ESTALE;
	err = attach_ask(lodic, &request, -1, lent_held, file);
	if (err)
		return lent_hold_result(file, err);
	file->hold_asked = *take->turn = ++file->hold_turn;
	file->hold_yields = take->yields;
	return -EINPROGRESS;
}

int lent_hold(struct lodic *lodic, struct lent_file *file, int fd,
              const struct lent_take *take)
{
	struct lent_wish wish = { .take = take };
	int err = -EINPROGRESS, reason;

	if (!attach_trylock(lodic))
		return -EINPROGRESS;
	if (lent_is_anothers(lodic, file, take))
		goto out_unlock;
	file->wish = &wish;
	err = lent_ask(lodic, file, fd, 0, 0);
	file->wish = NULL;
	if (wish.answered) {
		err = lent_hold_result(file, wish.error);
	} else if (!err && lent_is_good(lodic, file)) {
		err = lent_ask_hold(lodic, file, take);
	} else if (!err) {
		reason = (int)host_load_relaxed(&file->reason);
		err = reason ? -reason : -EINPROGRESS; /* a reader has asked just now */
	} else if (err != -EINPROGRESS) {
		err = -ENOTCONN;
	}
out_unlock:
	attach_unlock(lodic);
	return err;
}

int lent_map(int fd, u64 offset, u64 bytes, int protection, int flags, void **ret_at)
{
	return huge_map_part(fd, offset, bytes, protection, flags, ret_at);
}

bool lent_vouches(const struct lodic *lodic, const struct lent_file *file, u64 id)
{
	return file->id == id && lent_is_good(lodic, file);
}

bool lent_give_back(struct lent_file *file)
{
	struct lodic *lodic = file->lodic;
	bool done;

	if (!lodic)
		return true; /* it was never asked for */
	if (!attach_trylock(lodic))
		return false;
	/* Without a service there is nobody who has it open. */
	if (attach_step(lodic) == 0 && lent_must_tell(lodic, file))
		lent_tell(lodic, file);
	done = !file->asked && !file->hold_asked && !lent_must_tell(lodic, file);
	attach_unlock(lodic);
	return done;
}

bool lent_park(struct lodic_context *context)
{
	bool done;

	if (!attach_trylock(context->lodic))
		return false;
	done = context_unseat(context);
	attach_unlock(context->lodic);
	return done;
}

bool lent_is_dead(const struct lodic_context *context)
{
	return context->seat != &no_seat && !context_is_seated(context);
}

u64 lent_generation(const struct lodic *lodic)
{
	return host_load_relaxed(&lodic->generation);
}

void lent_leave(struct lodic *lodic)
{
	attach_lock(lodic);
	attach_leave(lodic);
	attach_unlock(lodic);
}

void lent_leave_context(struct lodic_context *context)
{
	attach_lock(context->lodic);
	context_leave(context);
	attach_unlock(context->lodic);
	retry_reset(&context->retry);
}

void lent_leave_file(struct lent_file *file)
{
	/* Also one that the service has back. The same service may come again with its memory
	 * elsewhere, and then the claim would lead to where that was. */
	if (!file->name)
		return;
	lent_write(file, file->name, &lent_none);
	file->told = true;
	host_store_relaxed(&file->reason, 0);
	retry_reset(&file->retry);
}

bool lent_move(struct lodic *lodic, const char *socket, u32 trusted, u64 at_ns)
{
	int err;

	attach_lock(lodic);
	err = attach_move(lodic, socket, trusted, at_ns);
	attach_unlock(lodic);
	return err == 0;
}

bool lent_is_alone(const struct lodic *lodic)
{
	return host_load_relaxed(&lodic->generation) == GENERATION_NONE &&
	       (lodic->error == -ENOENT || lodic->error == -ECONNREFUSED);
}

int lent_reason(const struct lodic_context *context, const struct lent_file *file)
{
	const struct lodic *lodic = context->lodic;
	int reason = (int)host_load_relaxed(&file->reason);

	if (reason)
		return reason;
	if (host_load_relaxed(&lodic->generation) == GENERATION_NONE)
		return -lodic->error;
	return context->error < 0 ? -context->error : 0;
}

bool lent_is_answered(const struct lodic_context *context, const struct lent_file *file)
{
	return host_load_relaxed(&file->reason) || context->error < 0 ||
	       lent_is_alone(context->lodic) ||
	       (context_is_seated(context) &&
	        host_load_relaxed(&file->generation) == context->seat->generation);
}

bool lent_due(const struct lodic_context *context, const struct lent_file *file)
{
	/* Without a seat it cannot read the file, but ask for it. */
	if (!context_is_seated(context) &&
	    (retry_due(&context->retry) ||
	     host_load_relaxed(&file->generation) != GENERATION_NONE))
		return retry_due(&context->retry);
	return retry_due(&file->retry);
}

/* What is not cached is not read here: the caller's pread(2) does it all. */
static bool lent_fill(void *ctx, u8 *to, u64 n, u64 offset)
{
	(void)to;
	(void)n;
	(void)offset;
	*(bool *)ctx = true;
	return false;
}

/* Not all of the read's blocks are cached. If the file's proof still holds, the service hears of
 * them. Nobody would bring in blocks of a file that has been revoked. */
static ssize_t lent_missed(struct seat *seat, const struct lent_claim *claim,
                           u64 offset, u64 n)
{
	u64 first = offset >> BLOCK_SHIFT;
	u64 nr = ((offset + n - 1) >> BLOCK_SHIFT) - first + 1;
	u64 *misses = &seat->core.memory->counters[CONTEXT_MISSES];
	int error = errno;

	if (!cache_vouch(&seat->core, &claim->core))
		return -ESTALE;
	seat_hint(seat, block_id(claim->core.id, 0) + first, nr);
	errno = error;
	host_store_relaxed(misses, host_load_relaxed(misses) + nr);
	return -EAGAIN;
}

static ssize_t lent_read_all(struct seat *seat, const struct lent_claim *claim,
                             const struct iovec *to, int nr, u64 offset, u64 bytes)
{
	u64 inside = offset < claim->size ? claim->size - offset : 0;
	u64 *counter = &seat->core.memory->counters[CONTEXT_HITS];
	u64 hits, all_hits = 0, done = 0;
	bool missed = false;
	struct cache_read wanted = { .file = &claim->core,
		                     .fill = lent_fill,
		                     .ctx = &missed };

	if (inside > bytes)
		inside = bytes;
	/* Each piece is vouched for by the same claim, so all are of one time. */
	for (int i = 0; i < nr; i++) {
		wanted.to = to[i].iov_base;
		wanted.n =
			to[i].iov_len < inside - done ? to[i].iov_len : inside - done;
		wanted.offset = offset + done;
		if (!cache_read(&seat->core, &wanted, &hits))
			return missed ? lent_missed(seat, claim, offset, inside)
			              : -ESTALE;
		done += wanted.n;
		all_hits += hits;
	}
	host_store_relaxed(counter, host_load_relaxed(counter) + all_hits);
	return (ssize_t)done;
}

ssize_t lent_read(struct lodic_context *context, const struct lent_file *file, u64 name,
                  const struct iovec *to, int nr, u64 offset)
{
	struct seat *seat = context->seat;
	u32 within = (u32)offset % BLOCK_BYTES;
	struct lent_claim claim;
	u64 bytes = 0;

	if (!lent_copy(file, name, &claim) || claim.generation == GENERATION_NONE ||
	    claim.generation != host_load_relaxed(&seat->generation))
		return -ESTALE;
	/* The short way is for one block, wholly inside the file. */
	if (nr == 1 && to->iov_len <= BLOCK_BYTES - within &&
	    offset + to->iov_len <= claim.size &&
	    cache_read_home(&seat->core, &claim.core,
	                    block_id(claim.core.id, 0) + (offset >> BLOCK_SHIFT),
	                    within, to->iov_base, (u32)to->iov_len)) {
		context_bump(&seat->core, CONTEXT_HITS);
		return (ssize_t)to->iov_len;
	}
	for (int i = 0; i < nr; i++)
		bytes += to[i].iov_len;
	if (offset + bytes > (u64)INT64_MAX)
		return -ESTALE; /* the kernel says what that means */
	return lent_read_all(seat, &claim, to, nr, offset, bytes);
}

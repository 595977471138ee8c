/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See holder.h. */
#include <errno.h>

#include "lib/client/error.h"
#include "lib/client/file.h"
#include "lib/client/holder.h"
#include "lib/huge.h"
#include "lib/port.h"

#define SEALS ((unsigned int)(PORT_SEAL_WRITE | PORT_SEAL_SHRINK | PORT_SEAL_GROW))
#define BUSY_PAUSE_NS 5000000
/* How often a read of the file is tried again. A signal may have come. But a file system may also
 * say EINTR or EAGAIN of its own will, and perhaps each time. Our choice. */
#define READ_TRIES 100u
/* How often the service may say that it reads the range. Only what is evicted or outdated in
 * between needs more than one. */
#define MOST_ROUNDS 4u
/* The file has changed while it was read. No errno has this value. */
#define HOLD_CHANGED (-100000)

/* What a hold that is not ready needs besides. */
struct hold_wish {
	struct lodic_file *file;
	u64 offset, n;
	struct channel channel; /* its own, for HOLD_WAIT */
	int answer;             /* to its last request */
	u64 number;             /* the service's, of what it reads */
	u32 id;                 /* the file's, when the service was asked last */
	u32 rounds, changes, deaths;
	bool outdated; /* some round has met a change */
};

struct lodic_hold {
	struct lodic *lodic;
	/* 0: ready. EINPROGRESS: not yet. Else why it never will be (RE1). Atomic: it is stored
	 * with release after data and bytes, so any thread may ask for these (acquire). */
	u64 state;
	const u8 *data;
	u64 bytes;
	struct copy copy; /* small: its memory; else copy.chunk is NULL */
	void *map;        /* large: what is mapped; NULL: nothing */
	u64 map_bytes;
	u64 offset;             /* in the file */
	u64 number;             /* the service's, of a large one that is ready */
	struct hold_wish *wish; /* NULL: ready, or failed */
	struct misuse misuse;
};

int holder_verify(int fd, const struct wire_reply *reply, uint64_t offset,
                  uint64_t bytes)
{
	u64 begin = reply->hold.offset, length = reply->hold.bytes;
	struct port_memory memory;
	unsigned int mode;

	if (port_memory_look(fd, &memory) != 0 || (memory.seals & SEALS) != SEALS ||
	    port_mode(fd, &mode) != 0 || mode & PORT_MAY_WRITE)
		return -EPROTO;
	if (begin % BLOCK_BYTES != 0 || length > memory.bytes || offset < begin ||
	    offset - begin > length || bytes > length - (offset - begin))
		return -EPROTO;
	return 0;
}

/* Maps what the service has answered HOLD with. A forked child keeps it. */
static int holder_map(struct lodic_hold *h, const struct channel_reply *reply)
{
	u64 page = port_page_bytes();
	u64 at, within, bytes;
	int err;

	if (reply->nr_fds != 1)
		return -EPROTO;
	err = holder_verify(reply->fds[0], reply->wire, h->offset, h->bytes);
	if (err)
		return err;
	at = h->offset - reply->wire->hold.offset;
	within = at % page;
	bytes = within + h->bytes;
	err = huge_map_part(reply->fds[0], at - within, bytes, PORT_READ, PORT_SHARED,
	                    &h->map);
	if (err)
		return err;
	h->map_bytes = bytes;
	h->data = (const u8 *)h->map + within;
	h->number = reply->wire->hold.number;
	return 0;
}

/* The service has answered HOLD. lodic.lock is held. */
static void holder_answered(void *owner, const struct channel_reply *reply)
{
	struct lodic_hold *h = owner;
	struct hold_wish *w = h->wish;

	w->answer = reply->because;
	if (reply->error == -EINPROGRESS && reply->wire)
		w->number = reply->wire->hold.number;
	else if (!reply->error)
		w->answer = holder_map(h, reply);
}

/* Asks for the memory. lodic.lock is held. */
static int holder_ask_service(struct lodic_hold *h, const struct claim *claim)
{
	const struct wire_request request = { .version = WIRE_VERSION,
		                              .op = WIRE_HOLD,
		                              .a = claim->core.id,
		                              .b = h->offset,
		                              .c = h->bytes };
	struct hold_wish *w = h->wish;
	int err;

	w->outdated |= w->rounds > 0 && w->id != claim->core.id;
	w->id = claim->core.id;
	err = attach_call_same(h->lodic, claim->generation, &request, -1,
	                       holder_answered, h);
	if (!err)
		err = w->answer;
	/* The service has hung up once since then, and closed what was open. */
	if (err == -EINVAL)
		file_claim_anew(w->file);
	return err == -EINVAL || err == -ESTALE ? HOLD_CHANGED : err;
}

/* Reads the range from the library's own descriptor. The file's size cannot change while its
 * proof holds (S3), so a read that ends before the range does has met a change. */
static int holder_read(const struct lodic_hold *h)
{
	u32 tries = READ_TRIES;
	u64 done = 0;
	int64_t n;

	while (done < h->bytes) {
		n = port_read(h->wish->file->fd, h->copy.at + done, h->bytes - done,
		              h->offset + done);
		if (n == 0)
			return HOLD_CHANGED;
		if (n < 0 && n != -EINTR && n != -EAGAIN)
			return (int)n;
		if (n < 0 && --tries == 0) /* -EAGAIN would mean something else */
			return -EIO;
		if (n > 0)
			done += (u64)n;
	}
	return 0;
}

/*
 * Copies the range into memory of this process, between two looks at the file's proof and at
 * the service's life. lodic.lock is held, but not while the file is read.
 *
 * HD2: claim was looked at after the program had asked. HD1: the second look follows the last
 * byte. The kernel copies in this thread, so its loads come before the acquire fence, and the
 * looks behind it. If a look finds the proof, it has read the word before the service ended the
 * proof (S1). Only after that does the kernel let a writer's open return. So all bytes were
 * loaded before any writer could store. The word alive is marked before a dead service's leases
 * fall, so the same holds for it.
 */
static int holder_copy(struct lodic_hold *h, const struct claim *claim)
{
	struct lodic *lodic = h->lodic;
	struct segment *segment = lodic->segment;
	int err = copy_alloc(&lodic->copies, h->bytes, h->offset % port_page_bytes(),
	                     &h->copy);

	if (err)
		return err;
	segment->users++; /* its words stay mapped */
	attach_unlock(lodic);
	err = holder_read(h);
	host_fence_acquire(); /* HD1; partner: file_proof_end(), and the kernel at a death */
	if (!err && !claim_is_good(segment, claim))
		err = HOLD_CHANGED;
	attach_lock(lodic);
	segment_put(segment);
	if (err) {
		copy_free(&h->copy);
		h->copy.chunk = NULL;
		return err;
	}
	h->data = h->copy.at;
	return 0;
}

/* There is no claim: the end of the file, or why it is not cached, with -ESTALE. */
static int holder_uncached(const struct lodic_file *file, off_t offset)
{
	int err = file_uncached(file, offset);

	return err == -ENODATA ? reason_encode(LODIC_REASON_PAST_END)
	                       : reason_join(reason_find(file_why(file, true)), err);
}

/* Asks once. 0: the bytes are there. -EINPROGRESS: the service reads them. HOLD_CHANGED, and
 * -ECONNRESET: another try may do better. lodic.lock is held. */
static int holder_ask(struct lodic_hold *h)
{
	const struct hold_wish *w = h->wish;
	const struct claim *found;
	struct claim
		claim; /* a copy: the file's own may change without the lock (CL2) */
	u64 left;
	int err = file_claim_wait(w->file, &found);

	if (err == -ESTALE && w->deaths > 0 && !h->lodic->segment)
		return -ECONNRESET; /* it has no successor */
	if (err)
		return err == -ESTALE ? holder_uncached(w->file, (off_t)w->offset)
		                      : err;
	claim = *found;
	if (w->offset >= claim.size)
		return reason_encode(LODIC_REASON_PAST_END);
	left = claim.size - w->offset;
	h->offset = w->offset;
	h->bytes = w->n == 0 || w->n > left ? left : w->n;
	if (h->bytes < COPY_LIMIT_BYTES)
		return holder_copy(h, &claim);
	return holder_ask_service(h, &claim);
}

/* The service has answered HOLD_WAIT, by the hold's own connection. */
static void holder_settled(void *owner, const struct channel_reply *reply)
{
	struct hold_wish *w = owner;

	w->answer = reply->because;
}

/* Asks to be told when the service has read the range. It does not wait for that. */
static int holder_listen(struct lodic_hold *h)
{
	struct hold_wish *w = h->wish;
	const struct wire_request request = { .version = WIRE_VERSION,
		                              .op = WIRE_HOLD_WAIT,
		                              .a = w->number };
	u64 deadline = host_now_ns() + REQUEST_TIMEOUT_NS;
	struct channel *c = &w->channel;
	int err;

	/* That of the last round, if the service has not hung up since. */
	if (c->socket >= 0 &&
	    channel_ask(c, &request, -1, DEADLINE_NEVER, holder_settled, w) == 0)
		return 0;
	channel_close(c, -ECONNRESET);
	while ((err = channel_connect(c, h->lodic->start.socket_path,
	                              h->lodic->start.trusted)) == -EAGAIN) {
		if (host_now_ns() > deadline)
			return -ETIMEDOUT;
		port_sleep(BUSY_PAUSE_NS); /* the service has many others to let in */
	}
	if (!err)
		err = channel_ask(c, &request, -1, DEADLINE_NEVER, holder_settled, w);
	return err == -ENOENT || err == -ECONNREFUSED ? -ECONNRESET : err;
}

/* May the next try do better than this error? Each reason is good for one try. */
static bool holder_tries_again(struct hold_wish *w, int err)
{
	if (err == HOLD_CHANGED) {
		w->outdated = true;
		return w->changes++ == 0;
	}
	return err == -ECONNRESET && w->deaths++ == 0;
}

/* It is ready (err is 0), or never will be. */
static void holder_settle(struct lodic_hold *h, int err)
{
	channel_close(&h->wish->channel, -ECONNRESET);
	port_free(h->wish);
	h->wish = NULL;
	host_store_release(&h->state, (u64)-err); /* partner: lodic_hold_data() */
}

/* Nothing is under way by the hold's connection: does what can be done now. 0: it is ready.
 * -EINPROGRESS: the service reads, and will answer there. */
static int holder_go_on(struct lodic_hold *h)
{
	struct hold_wish *w = h->wish;
	int err = w->answer;

	/* A writer came: the file may be cached anew. Or the service has given the reading up,
	 * because nobody seemed to want it. */
	w->outdated |= err == -ESTALE;
	if (err == -ESTALE || err == -ECANCELED)
		err = 0;
	while (!err || holder_tries_again(w, err)) {
		attach_lock(h->lodic);
		err = holder_ask(h);
		attach_unlock(h->lodic);
		if (err == -EINPROGRESS && w->rounds++ == MOST_ROUNDS)
			err = reason_encode(w->outdated ? LODIC_REASON_HOLD_CHANGED
			                                : LODIC_REASON_HOLD_ROOM);
		if (err == -EINPROGRESS) {
			err = holder_listen(h);
			if (!err)
				return -EINPROGRESS;
		} else if (!err) {
			break;
		}
	}
	if (err == HOLD_CHANGED)
		err = reason_encode(LODIC_REASON_HOLD_CHANGED);
	holder_settle(h, err);
	return err;
}

static struct lodic_hold *holder_make(struct lodic_file *file)
{
	struct lodic_hold *h = port_alloc(sizeof(*h));
	struct hold_wish *w = port_alloc(sizeof(*w));

	if (!h || !w) {
		port_free(h);
		port_free(w);
		return NULL;
	}
	channel_init(&w->channel);
	w->file = file;
	h->wish = w;
	h->state = EINPROGRESS;
	h->lodic = file->lodic;
	misuse_opened(&h->misuse, h->lodic->mark);
	attach_get(h->lodic);
	return h;
}

static void holder_free(struct lodic_hold *h)
{
	struct lodic *lodic = h->lodic;

	if (h->map)
		port_unmap(h->map, h->map_bytes);
	if (h->copy.chunk)
		copy_free(&h->copy);
	/* In a forked child the connection is the parent's. */
	if (h->wish && !attach_forked(lodic))
		channel_close(&h->wish->channel, -ECANCELED);
	port_free(h->wish);
	misuse_closed(&h->misuse, h);
	attach_put(lodic);
}

static void holder_sleep(void *arg)
{
	const struct lodic_hold *h = arg;

	channel_wait(&h->wish->channel);
}

static void holder_cancelled(void *arg)
{
	holder_free(arg);
}

/* Goes on until the hold is ready, or has failed. The thread can be cancelled only while it
 * waits for the service, if its own state allows that. */
static int holder_wait(struct lodic_hold *h, int cancel_state)
{
	int err;

	while ((err = holder_go_on(h)) == -EINPROGRESS)
		port_cancellable(cancel_state, holder_sleep, holder_cancelled, h);
	return err;
}

/* On an error there is no hold, and *ret_hold is untouched. The caller cannot be cancelled. */
static int holder_begin(struct lodic_file *file, u64 offset, u64 n, bool wait,
                        int cancel_state, struct lodic_hold **ret_hold)
{
	struct lodic_hold *h = holder_make(file);
	int err;

	if (!h)
		return -ENOMEM;
	h->wish->offset = offset;
	h->wish->n = n;
	err = wait ? holder_wait(h, cancel_state) : holder_go_on(h);
	if (err && err != -EINPROGRESS) {
		holder_free(h);
		return err;
	}
	*ret_hold = h;
	return 0;
}

EXPORT int lodic_hold(struct lodic *lodic, struct lodic_file *file, off_t offset,
                      uint64_t n, unsigned int flags, struct lodic_hold **ret_hold)
{
	bool wait = flags & LODIC_WAIT;
	int state, err;

	if (!lodic || !file || !ret_hold || file->lodic != lodic || offset < 0 ||
	    flags & ~(unsigned int)LODIC_WAIT)
		return error_because(LODIC_REASON_ARGUMENT);
	misuse_file(&file->misuse);
	error_forget();
	if (attach_forked(lodic))
		return error_because(LODIC_REASON_FORKED);
	/* A thread that is cancelled half-way would leave a hold that nobody knows. */
	state = port_cancel_off();
	/* -EAGAIN ends when one of the program's other ranges has been read. */
	while ((err = holder_begin(file, (u64)offset, n, wait, state, ret_hold)) ==
	               reason_encode(LODIC_REASON_HOLD_QUEUE) &&
	       wait) {
		port_cancel_as(state);
		port_sleep(BUSY_PAUSE_NS);
		port_cancel_off();
	}
	port_cancel_as(state);
	return error_plain(err);
}

EXPORT int lodic_hold_ready(struct lodic_hold *hold)
{
	u64 now;
	int state, err;

	misuse_hold(&hold->misuse);
	now = host_load_acquire(&hold->state);
	if (now != EINPROGRESS)
		return now ? error_plain(-(int)now) : 1;
	error_forget();
	if (attach_forked(hold->lodic))
		return error_because(LODIC_REASON_FORKED);
	state = port_cancel_off();
	err = channel_poll(&hold->wish->channel) ? holder_go_on(hold) : -EINPROGRESS;
	port_cancel_as(state);
	return err == -EINPROGRESS ? 0 : err ? error_plain(err) : 1;
}

EXPORT int lodic_hold_event(const struct lodic_hold *hold)
{
	misuse_hold(&hold->misuse);
	if (host_load_acquire(&hold->state) != EINPROGRESS ||
	    attach_forked(hold->lodic))
		return -1;
	return hold->wish->channel.socket;
}

EXPORT const void *lodic_hold_data(const struct lodic_hold *hold)
{
	misuse_hold(&hold->misuse);
	return host_load_acquire(&hold->state) == 0 ? hold->data : NULL;
}

EXPORT uint64_t lodic_hold_bytes(const struct lodic_hold *hold)
{
	misuse_hold(&hold->misuse);
	return host_load_acquire(&hold->state) == 0 ? hold->bytes : 0;
}

/* What the service has answered HOLD_FD with. */
struct holder_descriptor {
	const struct lodic_hold *hold;
	int error;
	int fd;
	u64 at;
};

static void holder_fd_answered(void *owner, const struct channel_reply *reply)
{
	struct holder_descriptor *d = owner;
	const struct lodic_hold *h = d->hold;

	d->error = reply->because;
	if (!d->error && (reply->nr_fds != 1 || reply->wire->hold.number != h->number))
		d->error = -EPROTO;
	if (!d->error)
		d->error =
			holder_verify(reply->fds[0], reply->wire, h->offset, h->bytes);
	if (d->error)
		return;
	d->at = h->offset - reply->wire->hold.offset;
	d->fd = port_dup(reply->fds[0]);
	if (d->fd < 0)
		d->error = d->fd;
}

/* Asks the service that made the hold, and starts none. Another one does not know the number,
 * which is -ESTALE too. */
static int holder_ask_fd(struct lodic_hold *h, struct holder_descriptor *d)
{
	const struct wire_request request = { .version = WIRE_VERSION,
		                              .op = WIRE_HOLD_FD,
		                              .a = h->number };
	struct lodic *lodic = h->lodic;
	int tries = 0;
	int err;

	if (attach_forked(lodic))
		return reason_encode(LODIC_REASON_FORKED);
	attach_lock(lodic);
	do { /* twice: it may have hung up, or its cache has another size now */
		err = attach_call(lodic, &request, -1, holder_fd_answered, d);
		if (!err)
			err = d->error;
	} while (err == -ECONNRESET && tries++ == 0);
	attach_unlock(lodic);
	if (err == -ENOENT || err == -ECONNREFUSED || err == -ECONNRESET ||
	    err == -ESTALE)
		return reason_encode(LODIC_REASON_HOLD_ORPHAN);
	return err == -EAGAIN ? -ETIMEDOUT : err; /* it lets nobody in */
}

EXPORT int lodic_hold_fd(struct lodic_hold *hold, off_t *ret_at)
{
	struct holder_descriptor d = { .hold = hold };
	int state, err;
	u64 now;

	error_forget();
	if (!hold || !ret_at)
		return error_because(LODIC_REASON_ARGUMENT);
	misuse_hold(&hold->misuse);
	now = host_load_acquire(&hold->state);
	if (now == EINPROGRESS)
		return error_because(LODIC_REASON_HOLD_UNREADY);
	if (now)
		return error_plain(-(int)now);
	state = port_cancel_off();
	err = hold->copy.chunk ? copy_descriptor(&hold->copy, &d.fd, &d.at)
	                       : holder_ask_fd(hold, &d);
	port_cancel_as(state);
	if (err)
		return error_plain(err);
	*ret_at = (off_t)d.at;
	return d.fd;
}

EXPORT void lodic_release(struct lodic_hold *hold)
{
	int state;

	if (!hold)
		return;
	misuse_hold_release(&hold->misuse);
	state = port_cancel_off();
	holder_free(hold);
	port_cancel_as(state);
}

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See hold_request.h. */
#include <errno.h>

#include "lib/port/pages.h"
#include "lib/reason.h"
#include "lib/service/client/hold_request.h"
#include "lib/service/hold/hold_table.h"
#include "lib/service/hold/hold_tier.h"
#include "lib/service/client/state.h"
#include "lib/service/client/connection.h"
#include "lib/service/file/files.h"
#include "lib/service/file/held.h"
#include "lib/service/file/opens.h"
#include "lib/service/hold/holds.h"
#include "lib/service/hold/range.h"

/* Our choice: few ranges ever wait for room. */
#define WANTED_LOOKS 256u

/* What a program gets. */
struct hold_offer {
	u64 number, offset, length, huge_bytes;
	int fd; /* the caller closes it when it is sent */
};

static int hold_request_give(struct clients *s, struct held_range *r, int pid,
                             struct hold_offer *ret_offer)
{
	int fd = port_memory_again(r->fd, false);

	if (fd < 0)
		return fd == -EMFILE   ? reason_encode(LODIC_REASON_DESCRIPTORS)
		       : fd == -ENOENT ? reason_encode(LODIC_REASON_NO_PROC)
		                       : fd;
	hold_table_charge(hold_table(s->holding), r, pid);
	s->stat->holds_given++;
	*ret_offer = (struct hold_offer){ .number = r->number,
		                          .offset = r->offset,
		                          .length = r->length,
		                          .huge_bytes = r->huge_bytes,
		                          .fd = fd };
	return 0;
}

static int hold_request_give_shared(struct clients *s, struct held_range *r, int pid,
                                    struct hold_offer *ret_offer)
{
	int err = hold_request_give(s, r, pid, ret_offer);

	if (err)
		return err;
	r->owed -= r->owed > 0;
	if (r->nr_given++ > 0 && r->visits < HOLD_VISITS_MAX)
		r->visits++;
	hold_table_unlink(hold_table(s->holding), r); /* to the front */
	hold_table_link(hold_table(s->holding), r);
	return 0;
}

/* A range that waits for room, around these bytes of the file. */
static struct held_range *hold_request_wanted(const struct holds *h, u32 id, u32 node,
                                              u64 first, u64 bytes)
{
	struct held_range *r = h->queues.lists[HOLDS_WANTING].oldest;

	for (u32 left = WANTED_LOOKS; r && left > 0; r = r->newer, left--)
		if (r->file == id && r->node == node && r->offset <= first &&
		    first + bytes <= r->offset + r->bytes)
			return r;
	return NULL;
}

/* A new range, which waits for room. It may be read already when this returns, or have failed:
 * then it stays as a failed one for a while. */
static int hold_request_begin(struct clients *s, struct hold_asker *asker,
                              const struct held_file *f, u32 node, u64 first, u64 bytes,
                              struct held_range **ret_range)
{
	const struct file_facts facts = held_facts(f);
	struct holds *h = hold_table(s->holding);
	struct held_range *r;

	if (asker->nr >= HOLDS_EACH)
		return reason_encode(LODIC_REASON_HOLD_QUEUE);
	r = hold_table_new(h);
	if (!r)
		return h->nr_free == 0 && h->nr_places == HOLD_PLACES ? -ENFILE
		                                                      : -ENOMEM;
	r->file = facts.id;
	r->slot = files_slot(s->files, f);
	r->node = node;
	r->dev = facts.dev;
	r->ino = facts.ino;
	r->offset = first;
	r->bytes = bytes;
	r->length = bytes < facts.size - first ? bytes : facts.size - first;
	hold_table_join_asker(r, asker);
	holds_want(s->holding, r);
	*ret_range = r;
	return 0;
}

/* What is not ready for a request: it is being read, waits for room, or comes anew. */
static int hold_request_later(struct clients *s, struct hold_asker *asker,
                              const struct held_file *f, u32 node, u64 first, u64 bytes,
                              struct held_range **ret_range)
{
	struct held_range *r = hold_request_wanted(hold_table(s->holding), held_id(f),
	                                           node, first, bytes);
	int err;

	if (!r) {
		err = hold_request_begin(s, asker, f, node, first, bytes, &r);
		if (err)
			return err;
	}
	if (r->queue == HOLDS_FAILED) { /* at once: nobody knows its number */
		err = r->error;
		hold_table_free(hold_table(s->holding), r);
		return err;
	}
	*ret_range = r;
	return -EINPROGRESS;
}

/* The whole pages around n bytes from offset on, of a file of this size; n = 0: to its end. */
static int hold_request_pages(u64 size, u64 page_bytes, u64 offset, u64 n,
                              u64 *ret_first, u64 *ret_bytes)
{
	u64 end;

	if (offset >= size)
		return reason_join(LODIC_REASON_PAST_END, -ENODATA);
	end = n == 0 || n > size - offset ? size : offset + n;
	*ret_first = offset - offset % page_bytes;
	*ret_bytes = end - *ret_first + page_bytes - 1;
	*ret_bytes -= *ret_bytes % page_bytes;
	return 0;
}

static int hold_request_for(struct clients *s, struct client *c,
                            const struct held_file *f,
                            const struct wire_request *request,
                            struct hold_offer *ret_offer)
{
	struct holds *h = hold_table(s->holding);
	struct held_range *r = NULL;
	struct hold *found;
	struct hold_file file;
	u64 first, bytes;
	u32 node;
	int err;

	if (!h)
		return reason_encode(LODIC_REASON_NO_HOLDS);
	err = hold_request_pages(held_size(f), h->page_bytes, request->b, request->c,
	                         &first, &bytes);
	if (err)
		return err;
	if (bytes > hold_table_most(s->holding))
		return reason_encode(LODIC_REASON_HOLD_SIZE);
	node = hold_tier_node(s->holding, f, request->cpu);
	file = hold_table_file(s->holding, f, node);
	switch (hold_table_ask(h, &file, files_slot(s->files, f), first, first + bytes,
	                       &found)) {
	case HOLD_GIVE:
		return hold_request_give_shared(s, hold_table_range(found), c->pid,
		                                ret_offer);
	case HOLD_WAIT:
		r = hold_table_range(found);
		err = -EINPROGRESS;
		break;
	default:
		err = hold_vouch(&file) ? hold_request_later(s, &c->holds, f, node,
		                                             first, bytes, &r)
		                        : -ESTALE;
	}
	if (err == -EINPROGRESS)
		ret_offer->number = r->number;
	return err;
}

static int hold_request_again(struct clients *s, int pid, u64 number,
                              struct hold_offer *ret_offer)
{
	struct held_range *r = hold_table_find(s->holding, number);
	bool known;

	if (!r)
		return -ESTALE;
	known = r->more > 0;
	for (u32 i = 0; i < r->nr_pids; i++)
		known |= r->pids[i] == (u32)pid;
	if (!known || !hold_pass_on(&r->core)) /* HD6 */
		return -ESTALE;
	return hold_request_give(s, r, pid, ret_offer);
}

/* Carries out a request, except HOLD_WAIT. */
static int hold_request_offer(struct clients *s, struct client *c,
                              const struct wire_request *request,
                              struct hold_offer *ret_offer)
{
	u64 id = request->a;
	struct held_file *f;

	if (request->op == WIRE_HOLD_FD)
		return hold_request_again(s, c->pid, request->a, ret_offer);
	if (id == FILE_NONE || id > UINT32_MAX ||
	    !opens_have(&c->opens, (id - 1) % s->shape->nr_files, id))
		return -EINVAL;
	f = files_find(s->files, (u32)id);
	return f ? hold_request_for(s, c, f, request, ret_offer) : -ESTALE;
}

int hold_request(struct clients *s, struct client *c,
                 const struct wire_request *request, struct wire_reply *reply,
                 int *ret_fd)
{
	struct hold_offer offer = { .fd = -1 };
	int err;

	if (request->op == WIRE_HOLD_WAIT) {
		c->holds.waiter.client = c;
		return hold_table_wait(s->holding, request->a, &c->holds.waiter);
	}
	err = hold_request_offer(s, c, request, &offer);
	reply->hold.number = offer.number;
	reply->hold.offset = offer.offset;
	reply->hold.bytes = offer.length;
	reply->hold.huge_bytes = offer.huge_bytes;
	*ret_fd = offer.fd;
	return err;
}

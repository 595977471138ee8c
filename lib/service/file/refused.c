/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See refused.h. */
#include <errno.h>
#include <string.h>

#include "lib/port.h"
#include "lib/reason.h"
#include "lib/service/file/refused.h"
#include "lib/service/file/state.h"

struct refused_list {
	u32 nr;
	struct refused entries[REFUSED_MOST];
};

/* Their order is that of the bits in struct refused.said. One more bit is for any other error. */
static const unsigned char refusals[] = {
	LODIC_REASON_OWNER,
	LODIC_REASON_UNREADABLE,
	LODIC_REASON_FILE_SYSTEM,
	LODIC_REASON_LEASES_OFF,
	LODIC_REASON_NO_PROC,
	LODIC_REASON_TMPFS,
	LODIC_REASON_OPEN_FOR_WRITING,
	LODIC_REASON_WRITTEN_LATELY,
	LODIC_REASON_WATCHES,
	LODIC_REASON_GROUP,
	LODIC_REASON_EMPTY,
	LODIC_REASON_FILE_SIZE,
	LODIC_REASON_FILES,
	LODIC_REASON_DESCRIPTORS,
	LODIC_REASON_OTHERS_HANG,
};
#define NR_REFUSALS (sizeof(refusals) / sizeof(*refusals))
/* The last one is any other. */
static const struct revocation {
	int error;
	const char *words;
} revocations[] = {
	{ -EKEYREVOKED, "its mode, its owner or its path has changed" },
	{ -EOVERFLOW, "more files have changed than the kernel could tell of "
	              "(fs.inotify.max_queued_events)" },
	{ 0, "a program has opened it for writing" },
};

static const struct revocation *refused_find_revocation(int error)
{
	const struct revocation *r = revocations;

	while (r->error != 0 && r->error != error)
		r++;
	return r;
}

static u32 refused_bit(int error, bool revoked)
{
	enum lodic_reason reason = reason_find(error);
	u32 bit = 0;

	if (revoked)
		return (u32)(NR_REFUSALS + 1 +
		             (size_t)(refused_find_revocation(error) - revocations));
	while (bit < NR_REFUSALS && refusals[bit] != reason)
		bit++;
	return bit;
}

const char *refused_reason(int error, bool revoked)
{
	return revoked ? refused_find_revocation(error)->words
	       : refused_bit(error, false) == NR_REFUSALS
	               ? "the service cannot open it"
	               : reason_text(reason_find(error));
}

static struct refused *refused_find(struct refused_list *list, const char *path,
                                    u64 dev, u64 ino)
{
	for (u32 i = 0; i < list->nr; i++) {
		struct refused *r = &list->entries[i];

		if (r->dev == dev && r->ino == ino &&
		    (ino != 0 || strcmp(r->path, path) == 0))
			return r;
	}
	return NULL;
}

/* A new entry, or the oldest one's place. */
static struct refused *refused_place(struct refused_list *list)
{
	struct refused *oldest = &list->entries[0];

	if (list->nr < REFUSED_MOST)
		return &list->entries[list->nr++];
	for (u32 i = 1; i < list->nr; i++)
		if (list->entries[i].when_ns < oldest->when_ns)
			oldest = &list->entries[i];
	port_free(oldest->path);
	return oldest;
}

static struct refused *refused_add(struct refused_list *list, const char *path, u64 dev,
                                   u64 ino)
{
	char *copy = port_text(path);
	struct refused *r;

	if (!copy)
		return NULL;
	r = refused_place(list);
	*r = (struct refused){ .dev = dev, .ino = ino, .path = copy };
	return r;
}

/* Another file may have got the inode's number since. */
static void refused_rename(struct refused *r, const char *path)
{
	char *copy = port_text(path);

	if (!copy)
		return;
	port_free(r->path);
	r->path = copy;
	r->said = 0;
}

void refused_note(struct files *s, const char *path, u64 dev, u64 ino, int error,
                  bool revoked)
{
	u32 bit = (u32)1 << refused_bit(error, revoked);
	struct refused *r;

	path = path ? path : "?";
	r = refused_find(s->refused, path, dev, ino);
	if (r && strcmp(r->path, path) != 0)
		refused_rename(r, path);
	if (!r)
		r = refused_add(s->refused, path, dev, ino);
	if (!r)
		return; /* no memory: the client hears of it all the same */
	r->error = error;
	r->revoked = revoked;
	r->when_ns = host_now_ns();
	if (!(r->said & bit))
		service_say(s->base, SERVICE_INFO, revoked ? "revoked" : "refused",
		            "%s is not cached%s: %s", path, revoked ? " any more" : "",
		            refused_reason(error, revoked));
	r->said |= bit;
}

void refused_forget(struct files *s, u64 dev, u64 ino)
{
	struct refused *r = refused_find(s->refused, "", dev, ino);

	if (r)
		r->error = 0;
}

u32 refused_nr(const struct files *s)
{
	return s->refused->nr;
}

const struct refused *refused_at(const struct files *s, u32 i)
{
	return &s->refused->entries[i];
}

int refused_init(struct files *s)
{
	s->refused = port_alloc(sizeof(*s->refused));
	return s->refused ? 0 : -ENOMEM;
}

void refused_fini(struct files *s)
{
	for (u32 i = 0; s->refused && i < s->refused->nr; i++)
		port_free(s->refused->entries[i].path);
	port_free(s->refused);
	s->refused = NULL;
}

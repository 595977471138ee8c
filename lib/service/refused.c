/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See refused.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/service/refused.h"

struct refused_list {
	u32 nr;
	struct refused entries[REFUSED_MOST];
};

/* The order is that of the bits in struct refused.said. The last one of each is any other error. */
struct reason {
	int error;
	const char *words;
};
static const struct reason refusals[] = {
	{ -EACCES, "its owner is another user, and the service lacks CAP_LEASE" },
	{ -EOPNOTSUPP,
	  "nothing proves that it does not change: its file system keeps no "
	  "dependable leases (--immutable is your promise)" },
	{ -EMEDIUMTYPE,
	  "it lies in tmpfs, which is memory already (--immutable, your promise, has it "
	  "cached all the same)" },
	{ -ETXTBSY, "a program has it open for writing" },
	{ -EALREADY, "a program has written to it lately (--lease-pause)" },
	{ -ENOLCK,
	  "the kernel grants no further inotify watch (fs.inotify.max_user_watches)" },
	{ -EPERM, "not each member of the group may open it by its path" },
	{ -ENODATA, "it is empty" },
	{ -EFBIG, "it has 16 TiB or more" },
	{ -ENFILE, "the service holds as many files as it can" },
	{ -EBUSY, "the service waits for files that do not answer" },
	{ 0, "the service cannot open it" },
};
#define NR_REFUSALS (sizeof(refusals) / sizeof(*refusals))
static const struct reason revocations[] = {
	{ -EKEYREVOKED, "its mode, its owner or its path has changed" },
	{ -EOVERFLOW, "more files have changed than the kernel could tell of "
	              "(fs.inotify.max_queued_events)" },
	{ 0, "a program has opened it for writing" },
};

static const struct reason *refused_find_reason(int error, bool revoked)
{
	const struct reason *r = revoked ? revocations : refusals;

	while (r->error != 0 && r->error != error)
		r++;
	return r;
}

static u32 refused_bit(int error, bool revoked)
{
	const struct reason *r = refused_find_reason(error, revoked);

	return (u32)(revoked ? NR_REFUSALS + (size_t)(r - revocations)
	                     : (size_t)(r - refusals));
}

const char *refused_reason(int error, bool revoked)
{
	return refused_find_reason(error, revoked)->words;
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
	free(oldest->path);
	return oldest;
}

static struct refused *refused_add(struct refused_list *list, const char *path, u64 dev,
                                   u64 ino)
{
	char *copy = strdup(path);
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
	char *copy = strdup(path);

	if (!copy)
		return;
	free(r->path);
	r->path = copy;
	r->said = 0;
}

void refused_note(struct service *s, const char *path, u64 dev, u64 ino, int error,
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
		service_say(s, SERVICE_INFO, revoked ? "revoked" : "refused",
		            "%s is not cached%s: %s", path, revoked ? " any more" : "",
		            refused_reason(error, revoked));
	r->said |= bit;
}

void refused_forget(struct service *s, u64 dev, u64 ino)
{
	struct refused *r = refused_find(s->refused, "", dev, ino);

	if (r)
		r->error = 0;
}

u32 refused_nr(const struct service *s)
{
	return s->refused->nr;
}

const struct refused *refused_at(const struct service *s, u32 i)
{
	return &s->refused->entries[i];
}

int refused_init(struct service *s)
{
	s->refused = calloc(1, sizeof(*s->refused));
	return s->refused ? 0 : -ENOMEM;
}

void refused_fini(struct service *s)
{
	for (u32 i = 0; s->refused && i < s->refused->nr; i++)
		free(s->refused->entries[i].path);
	free(s->refused);
	s->refused = NULL;
}

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See domain.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/xattr.h>

#include "lib/service/client.h"
#include "lib/service/domain.h"
#include "lib/service/proof.h"
#include "lib/service/socket.h"
#include "lib/wire.h"

/* No user of a group has more than this part of what all can have. Our choice: two users can never
 * keep a third one out of more than that, and one alone has enough. */
#define DOMAIN_PART 2u

#define READ_BIT 4u
#define SEARCH_BIT 1u
#define GROUP_SHIFT 3

/* ---- programs ---- */

static bool domain_has_member(int socket, const struct ucred *peer, u32 group)
{
	socklen_t bytes = 0;
	bool found = peer->gid == group;
	gid_t *groups;

	/* The kernel says how much room they need. */
	if (found || getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, NULL, &bytes) == 0 ||
	    errno != ERANGE)
		return found;
	groups = malloc(bytes);
	if (groups &&
	    getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups, &bytes) == 0)
		for (u32 i = 0; i < bytes / sizeof(*groups); i++)
			found |= groups[i] == group;
	free(groups);
	return found;
}

bool domain_takes_peer(const struct service *s, int socket, struct ucred *ret_peer,
                       bool *ret_foreign)
{
	*ret_foreign = !socket_peer_is_ours(socket, ret_peer);
	if (!*ret_foreign)
		return true;
	return s->options.for_group && ret_peer->pid != 0 &&
	       domain_has_member(socket, ret_peer, s->options.group);
}

bool domain_allows(u32 op)
{
	switch (op) {
	case WIRE_HELLO:
	case WIRE_CONTEXT_OPEN:
	case WIRE_CONTEXT_CLOSE:
	case WIRE_FILE_OPEN:
	case WIRE_FILE_CLOSE:
	case WIRE_SYNC:
	case WIRE_STAT:
	case WIRE_TIMES: return true;
	default: return false;
	}
}

/* ---- files ---- */

/* Does each member of the group have this right, whatever its other groups are? The owner may take
 * it from itself, and give it back. */
static bool domain_may(u32 group, const struct stat *st, u32 bits)
{
	u32 of_group = st->st_mode >> GROUP_SHIFT & bits;

	return (st->st_gid == group ? of_group : of_group & st->st_mode) == bits;
}

/* An access list may refuse what the mode allows. */
static bool domain_is_plain(const char *path)
{
	return getxattr(path, "system.posix_acl_access", NULL, 0) < 0 &&
	       (errno == ENODATA || errno == EOPNOTSUPP);
}

/* All folders on the way must let the group pass. */
static bool domain_reaches(u32 group, const char *path)
{
	char folder[PROOF_PATH_BYTES];
	struct stat st;

	if (*path != '/' || strlen(path) >= sizeof(folder))
		return false;
	for (const char *at = path; at; at = strchr(at + 1, '/')) {
		size_t n = at == path ? 1 : (size_t)(at - path);

		memcpy(folder, path, n);
		folder[n] = '\0';
		if (lstat(folder, &st) != 0 || !S_ISDIR(st.st_mode) ||
		    !domain_may(group, &st, SEARCH_BIT) || !domain_is_plain(folder))
			return false;
	}
	return true;
}

bool domain_admits(u32 group, const char *path, const struct stat *file)
{
	struct stat st;

	return domain_may(group, file, READ_BIT) && domain_reaches(group, path) &&
	       lstat(path, &st) == 0 && st.st_dev == file->st_dev &&
	       st.st_ino == file->st_ino && domain_is_plain(path);
}

/* ---- shares ---- */

/* Not 0, which stands for nobody. */
int domain_account(const struct service *s, const struct client *c)
{
	if (s->options.for_group)
		return (int)(c->uid + 1);
	return c->pid ? c->pid : -1;
}

static bool domain_is_same_user(const struct client *a, const struct client *b)
{
	return a && a->uid == b->uid;
}

bool domain_has_contexts(const struct service *s, const struct client *c)
{
	u32 nr = 0;

	if (!s->options.for_group)
		return false;
	for (const struct client *other = s->clients; other; other = other->next)
		nr += domain_is_same_user(other, c) ? other->nr_contexts : 0;
	return nr >= ARENA_MAX_CONTEXTS / DOMAIN_PART;
}

bool domain_has_files(const struct service *s, const struct client *c)
{
	u64 nr = 0;

	if (!s->options.for_group)
		return false;
	for (const struct client *other = s->clients; other; other = other->next)
		nr += domain_is_same_user(other, c) ? other->opens.nr : 0;
	return nr >= s->shape.nr_files / DOMAIN_PART;
}

u64 domain_pins_left(const struct service *s, const struct client *c)
{
	u64 most = (u64)s->shape.nr_frames / 4 * 3 / DOMAIN_PART, given = 0;

	if (!s->options.for_group)
		return UINT64_MAX;
	for (u32 place = 0; place < ARENA_MAX_CONTEXTS; place++)
		if (domain_is_same_user(s->seats[place].client, c))
			given += s->seats[place].quota;
	return given < most ? most - given : 0;
}

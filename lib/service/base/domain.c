/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See domain.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/xattr.h>

#include "lib/service/base/domain.h"
#include "lib/service/base/socket.h"
#include "lib/service/client/client.h"
#include "lib/service/file/proof.h"

/* No user of a group has more than this part of what all can have. Our choice: two users can never
 * keep a third one out of more than that, and one alone has enough. */
#define DOMAIN_PART 2u

/* Connections have at most this part of the descriptors. Our choice: files and contexts have the
 * other half. */
#define CONNECTIONS_PART 2u
/* A connection has a socket and its program's pidfd; in a group a wake-up of its own, too. */
#define CONNECTION_FDS 2u
#define CONNECTION_FDS_OF_GROUP 3u

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

bool domain_lets_read(u32 group, const struct stat *file)
{
	return domain_may(group, file, READ_BIT);
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

/* How many connections one user has. */
struct domain_user {
	struct domain_user *next;
	u32 uid;
	u32 nr;
};

static u64 domain_most_connections(const struct service *s)
{
	u32 each = s->options.for_group ? CONNECTION_FDS_OF_GROUP : CONNECTION_FDS;
	struct rlimit limit;

	/* The limit may change while the service runs. */
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return UINT64_MAX;
	return limit.rlim_cur / CONNECTIONS_PART / each;
}

static struct domain_user *domain_find_user(const struct service *s, u32 uid)
{
	struct domain_user *u = s->users;

	while (u && u->uid != uid)
		u = u->next;
	return u;
}

bool domain_is_crowded(const struct service *s, u32 more)
{
	u64 most = domain_most_connections(s);

	return (u64)s->nr_connections + more >
	       (s->options.for_group ? most / DOMAIN_PART : most);
}

/* In a group nobody gets another connection who has as many as are free. So one user has half of
 * them at most, and the next one half of the rest. */
int domain_enter(struct service *s, struct client *c)
{
	const struct domain_user *u = domain_find_user(s, c->uid);
	u64 most = domain_most_connections(s);
	u64 mine = u && s->options.for_group ? u->nr : 0;

	if (s->nr_connections >= most || mine >= most - s->nr_connections)
		return -EUSERS;
	return domain_count(s, c);
}

int domain_count(struct service *s, struct client *c)
{
	struct domain_user *u = domain_find_user(s, c->uid);

	if (!u) {
		u = calloc(1, sizeof(*u));
		if (!u)
			return -ENOMEM;
		u->uid = c->uid;
		u->next = s->users;
		s->users = u;
	}
	u->nr++;
	s->nr_connections++;
	c->user = u;
	return 0;
}

void domain_leave(struct service *s, struct client *c)
{
	struct domain_user **at = &s->users, *u = c->user;

	if (!u)
		return;
	c->user = NULL;
	s->nr_connections--;
	if (--u->nr > 0)
		return;
	while (*at != u) /* a user that is counted is in the list */
		at = &(*at)->next;
	*at = u->next;
	free(u);
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

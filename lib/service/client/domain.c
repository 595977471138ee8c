/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See domain.h. */
#include <errno.h>

#include "lib/port/limit.h"
#include "lib/port/listen.h"
#include "lib/service/client/domain.h"
#include "lib/service/base/socket.h"
#include "lib/service/client/connection.h"
#include "lib/service/client/state.h"
#include "lib/service/memory/memory.h"

/* No user of a group has more than this part of what all can have. Our choice: two users can never
 * keep a third one out of more than that, and one alone has enough. */
#define DOMAIN_PART 2u

/* Connections have at most this part of the descriptors. Our choice: files and contexts have the
 * other half. */
#define CONNECTIONS_PART 2u
/* A connection has a socket and its program's pidfd; in a group a wake-up of its own, too. */
#define CONNECTION_FDS 2u
#define CONNECTION_FDS_OF_GROUP 3u

/* ---- programs ---- */

bool domain_takes_peer(const struct clients *s, int socket, struct port_peer *ret_peer,
                       bool *ret_foreign)
{
	*ret_foreign = !socket_peer_is_ours(socket, ret_peer);
	if (!*ret_foreign)
		return true;
	return s->sharing->for_group && ret_peer->pid != 0 &&
	       port_peer_has_group(socket, s->sharing->group);
}

/* ---- shares ---- */

/* Not 0, which stands for nobody. */
int domain_account(const struct clients *s, const struct client *c)
{
	if (s->sharing->for_group)
		return (int)(c->uid + 1);
	return c->pid ? c->pid : -1;
}

static bool domain_is_same_user(const struct client *a, const struct client *b)
{
	return a && a->uid == b->uid;
}

bool domain_has_contexts(const struct clients *s, const struct client *c)
{
	u32 nr = 0;

	if (!s->sharing->for_group)
		return false;
	for (const struct client *other = s->first; other; other = other->next)
		nr += domain_is_same_user(other, c) ? other->nr_contexts : 0;
	return nr >= ARENA_MAX_CONTEXTS / DOMAIN_PART;
}

bool domain_has_files(const struct clients *s, const struct client *c)
{
	u64 nr = 0;

	if (!s->sharing->for_group)
		return false;
	for (const struct client *other = s->first; other; other = other->next)
		nr += domain_is_same_user(other, c) ? other->opens.nr : 0;
	return nr >= s->shape->nr_files / DOMAIN_PART;
}

/* How many connections one user has. */
struct domain_user {
	struct domain_user *next;
	u32 uid;
	u32 nr;
};

static u64 domain_most_connections(const struct clients *s)
{
	u32 each = s->sharing->for_group ? CONNECTION_FDS_OF_GROUP : CONNECTION_FDS;

	/* The limit may change while the service runs. */
	return port_limit(PORT_LIMIT_DESCRIPTORS) / CONNECTIONS_PART / each;
}

static struct domain_user *domain_find_user(const struct clients *s, u32 uid)
{
	struct domain_user *u = s->users;

	while (u && u->uid != uid)
		u = u->next;
	return u;
}

bool domain_is_crowded(const struct clients *s, u32 more)
{
	u64 most = domain_most_connections(s);

	return (u64)s->nr_connections + more >
	       (s->sharing->for_group ? most / DOMAIN_PART : most);
}

/* In a group nobody gets another connection who has as many as are free. So one user has half of
 * them at most, and the next one half of the rest. */
int domain_enter(struct clients *s, struct client *c)
{
	const struct domain_user *u = domain_find_user(s, c->uid);
	u64 most = domain_most_connections(s);
	u64 mine = u && s->sharing->for_group ? u->nr : 0;

	if (s->nr_connections >= most || mine >= most - s->nr_connections)
		return -EUSERS;
	return domain_count(s, c);
}

int domain_count(struct clients *s, struct client *c)
{
	struct domain_user *u = domain_find_user(s, c->uid);

	if (!u) {
		u = port_alloc(sizeof(*u));
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

void domain_leave(struct clients *s, struct client *c)
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
	port_free(u);
}

u64 domain_pins_left(const struct clients *s, const struct client *c)
{
	u64 most = (u64)s->shape->nr_frames / 4 * 3 / DOMAIN_PART, given = 0;

	if (!s->sharing->for_group)
		return UINT64_MAX;
	for (u32 place = 0; place < ARENA_MAX_CONTEXTS; place++)
		if (s->seats[place].quota > 0 && domain_is_same_user(s->seats[place].client, c))
			given += memory_charge(s->memory);
	return given < most ? most - given : 0;
}

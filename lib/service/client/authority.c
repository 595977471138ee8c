/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See authority.h. Only the main thread comes here. */
#include <errno.h>

#include "lib/service/base/socket.h"
#include "lib/service/client/authority.h"
#include "lib/service/client/connection.h"

enum authority_who {
	WHO_NOBODY,   /* there is no such request */
	WHO_MEMBER,   /* any that was let in */
	WHO_ATTACHES, /* the same, and the sender is still that user, or ours */
	WHO_LOCAL,    /* this user, or root, when it connected */
	WHO_OURS,     /* this user, or root, then and now */
	WHO_OWN       /* this user, then and now */
};

#define NEW (1u << CLIENT_NEW)
#define READER (1u << CLIENT_READER)
#define VISITOR (1u << CLIENT_VISITOR)
#define SUCCESSOR (1u << CLIENT_SUCCESSOR)

static const struct authority_rule {
	u8 kinds; /* of connection: bits */
	u8 who;   /* enum authority_who */
} authority_rules[WIRE_NR_OPS] = {
	[WIRE_HELLO] = { NEW, WHO_ATTACHES },
	[WIRE_CONTEXT_OPEN] = { READER, WHO_MEMBER },
	[WIRE_CONTEXT_CLOSE] = { READER, WHO_MEMBER },
	[WIRE_FILE_OPEN] = { READER, WHO_MEMBER },
	[WIRE_FILE_CLOSE] = { READER, WHO_MEMBER },
	[WIRE_HOLD] = { READER, WHO_LOCAL },
	[WIRE_HOLD_FD] = { READER, WHO_OURS }, /* by number: of any file */
	[WIRE_HOLD_WAIT] = { READER | NEW | VISITOR, WHO_LOCAL },
	[WIRE_SYNC] = { READER | NEW | VISITOR, WHO_MEMBER },
	[WIRE_STAT] = { READER | NEW | VISITOR, WHO_MEMBER },
	[WIRE_TIMES] = { NEW | VISITOR, WHO_MEMBER },
	[WIRE_FILES] = { NEW | VISITOR, WHO_OURS },
	[WIRE_READERS] = { NEW | VISITOR, WHO_OURS },
	[WIRE_CONTEXTS] = { NEW | VISITOR, WHO_OURS },
	[WIRE_HOLDS] = { NEW | VISITOR, WHO_OURS },
	[WIRE_TIERS] = { NEW | VISITOR, WHO_OURS },
	[WIRE_MOVE] = { NEW | VISITOR, WHO_OURS },
	[WIRE_DROP] = { NEW | VISITOR, WHO_OURS },
	[WIRE_RESIZE] = { NEW | VISITOR, WHO_OURS },
	[WIRE_KEEP] = { NEW | VISITOR, WHO_OURS },
	[WIRE_STOP] = { NEW | VISITOR, WHO_OURS },
	[WIRE_SUCCEED] = { NEW | VISITOR, WHO_OWN },
	[WIRE_HAND_ARENA] = { SUCCESSOR, WHO_OWN },
	[WIRE_HAND_FILE] = { SUCCESSOR, WHO_OWN },
	[WIRE_HAND_FRAMES] = { SUCCESSOR, WHO_OWN },
	[WIRE_HAND_STAY] = { SUCCESSOR, WHO_OWN },
	[WIRE_HAND_OVER] = { SUCCESSOR, WHO_OWN },
	[WIRE_HANDED] = { SUCCESSOR, WHO_OWN },
};

/* Not even this user, and not root: what one of the two credentials says. */
static bool authority_has(const struct client *c, u32 who, u32 uid)
{
	switch (who) {
	case WHO_ATTACHES: return socket_is_ours(uid) || uid == c->uid;
	case WHO_OURS: return socket_is_ours(uid);
	default: return socket_is_own(uid);
	}
}

int authority_judge(struct client *c, u32 op, const struct wire_sender *sender)
{
	static const struct authority_rule none = { 0, WHO_NOBODY };
	const struct authority_rule *r =
		op < WIRE_NR_OPS ? &authority_rules[op] : &none;

	if (r->who == WHO_NOBODY)
		return -EINVAL;
	if (c->foreign && r->who > WHO_ATTACHES)
		return -EPERM;
	if (!(r->kinds & 1u << c->kind)) /* AU1 */
		return -EINVAL;
	if (r->who == WHO_MEMBER || r->who == WHO_LOCAL)
		goto out_allowed;
	if (!socket_says_who(sender)) /* AU3 */
		return -ECONNRESET;
	if (!authority_has(c, r->who, c->uid)) /* AU2 */
		return -EPERM;
	if (!authority_has(c, r->who, sender->uid)) /* AU2 */
		return -EPERM;
out_allowed:
	if (c->kind == CLIENT_NEW && r->kinds & VISITOR)
		c->kind = CLIENT_VISITOR;
	return 0;
}

bool client_is_reader(const struct client *c)
{
	return c->kind == CLIENT_READER;
}

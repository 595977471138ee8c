/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A service runs as the user whose programs it serves. Root may start it for that user. It then
 * has that user's ids and groups before it looks at any setting or file of the user's. At most
 * it keeps CAP_LEASE: without that the kernel grants leases only on the user's own files.
 */
#ifndef LODIC_CLI_SERVE_USER_H
#define LODIC_CLI_SERVE_USER_H

#include <stdbool.h>
#include <stdint.h>

struct serve_user {
	bool wanted;
	char name[64];
	uint32_t uid, gid;
};

/* name: a user's, or its number. -ENOENT: there is no such user. */
int serve_user_find(const char *name, struct serve_user *ret);
/* The process becomes that user for good. It has no capability afterwards but CAP_LEASE, if that is
 * to be kept. -EPERM: it is not root. */
int serve_user_become(const struct serve_user *user, bool keep_lease);

#endif

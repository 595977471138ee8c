/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* `lodic serve --user`: a service that root starts for another user. See serve_user.h. */
#define _GNU_SOURCE
#include "cli/serve_user.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cli/cli.h"

/* Linux knows no capability from here on; it says where its own end. */
#define MOST_CAPABILITIES 64

int serve_user_find(const char *name, struct serve_user *ret)
{
	const struct passwd *found = getpwnam(name);
	uint64_t number;

	if (!found && cli_parse_number(name, 0, UINT32_MAX - 1, &number) == 0)
		found = getpwuid((uid_t)number);
	if (!found || strlen(found->pw_name) >= sizeof(ret->name))
		return -ENOENT;
	strcpy(ret->name, found->pw_name);
	ret->uid = found->pw_uid;
	ret->gid = found->pw_gid;
	ret->wanted = true;
	return 0;
}

/* The process and what it executes can have no other capability again. */
static int forget_capabilities(void)
{
	for (int i = 0; i < MOST_CAPABILITIES; i++)
		if (prctl(PR_CAPBSET_DROP, i, 0, 0, 0) != 0 && errno != EINVAL)
			return -errno;
	return 0;
}

static int keep_capabilities(bool lease)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

	if (lease)
		data[CAP_TO_INDEX(CAP_LEASE)].effective =
			data[CAP_TO_INDEX(CAP_LEASE)].permitted =
				CAP_TO_MASK(CAP_LEASE);
	return syscall(SYS_capset, &head, data) == 0 ? 0 : -errno;
}

int serve_user_become(const struct serve_user *u, bool keep_lease)
{
	int error = forget_capabilities();

	if (error)
		return error;
	if (initgroups(u->name, u->gid) != 0 || setresgid(u->gid, u->gid, u->gid) != 0 ||
	    prctl(PR_SET_KEEPCAPS, keep_lease, 0, 0, 0) != 0 ||
	    setresuid(u->uid, u->uid, u->uid) != 0)
		return -errno;
	error = keep_capabilities(keep_lease);
	if (!error && prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0) != 0)
		error = -errno;
	return error;
}

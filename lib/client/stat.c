/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the cache says about itself: the service counts, this file only asks. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include "lib/client/attach.h"
#include "lib/client/error.h"
#include "lib/settings.h"

struct stat_answer {
	int error;
	struct lodic_stat stat;
};

static void stat_answered(void *owner, const struct channel_reply *reply)
{
	struct stat_answer *answer = owner;

	answer->error = reply->because;
	if (!reply->error)
		answer->stat = reply->wire->stat;
}

EXPORT int lodic_stat(struct lodic *lodic, struct lodic_stat *ret_stat, size_t bytes)
{
	static const struct wire_request request = { .version = WIRE_VERSION,
		                                     .op = WIRE_STAT };
	struct stat_answer answer;
	int err;

	error_forget();
	if (!lodic || !ret_stat)
		return error_because(LODIC_REASON_ARGUMENT);
	if (attach_forked(lodic))
		return error_because(LODIC_REASON_FORKED);
	attach_lock(lodic);
	err = attach_call(lodic, &request, -1, stat_answered, &answer);
	attach_unlock(lodic);
	if (!err)
		err = answer.error;
	if (err)
		return err == -ENOENT || err == -ECONNREFUSED
		               ? error_because(LODIC_REASON_AWAY)
		               : error_plain(err);
	client_copy_out(ret_stat, bytes, &answer.stat, sizeof(answer.stat));
	return 0;
}

EXPORT const char *lodic_scheme_name(enum lodic_scheme scheme)
{
	const char *name = settings_scheme_name((uint32_t)scheme);

	return name ? name : "unknown";
}

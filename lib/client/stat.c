/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the cache says about itself: the service counts, this file only asks. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include "lib/client/attach.h"
#include "lib/settings.h"

EXPORT int lodic_stat(struct lodic *lodic, struct lodic_stat *ret_stat, size_t bytes)
{
	struct wire_request request = { .version = WIRE_VERSION, .op = WIRE_STAT };
	struct wire_reply reply;
	struct segment *segment;
	int err = -ESTALE;

	if (!lodic || !ret_stat)
		return -EINVAL;
	if (attach_forked(lodic))
		return -ECHILD;
	pthread_mutex_lock(&lodic->lock);
	segment = attach_segment_get(lodic);
	if (segment) {
		err = segment_request(segment, &request, -1, REQUEST_TIMEOUT_MS, &reply,
		                      NULL, NULL);
		segment_put(segment);
	}
	pthread_mutex_unlock(&lodic->lock);
	if (!err)
		client_copy_out(ret_stat, bytes, &reply.stat, sizeof(reply.stat));
	return err;
}

EXPORT const char *lodic_scheme_name(enum lodic_scheme scheme)
{
	const char *name = settings_scheme_name((uint32_t)scheme);

	return name ? name : "unknown";
}

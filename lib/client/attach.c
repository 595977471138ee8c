/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Attaching to a service, and attaching again when it has died. The library repairs
 * nothing: a successor has an arena of its own.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/client/attach.h"
#include "lib/client/mapping.h"
#include "lib/service/service.h"
#include "lib/settings.h"

/* How long the caller of lodic_attach() waits for a service to come up, and how often it
 * looks. */
#define START_WAIT_MS 10000u
#define START_POLL_NS 5000000

static bool attach_nobody_listens(int err)
{
	return err == -ENOENT || err == -ECONNREFUSED;
}

/* Opens the service's segment, and starts the service when none listens. With wait, it
 * also waits for a service that another process is starting. */
static int attach_open_or_start(struct lodic *lodic, bool wait,
                                struct segment **ret_segment)
{
	struct timespec pause = { .tv_nsec = START_POLL_NS };
	u64 deadline = host_now_ns() + (u64)START_WAIT_MS * 1000000;
	int err = segment_open(lodic->start.socket_path, ret_segment);

	if (!attach_nobody_listens(err) || !*lodic->start.program)
		return err;
	err = start_service(&lodic->start);
	if (err)
		return err;
	do {
		err = segment_open(lodic->start.socket_path, ret_segment);
		if (!attach_nobody_listens(err))
			return err;
		nanosleep(&pause, NULL);
	} while (wait && host_now_ns() < deadline);
	return -ETIMEDOUT;
}

struct segment *attach_segment_get(struct lodic *lodic)
{
	struct segment *s = lodic->segment;

	if (s && !segment_alive(s)) {
		lodic->segment = NULL;
		segment_put(s);
		s = NULL;
	}
	if (!s && retry_due(&lodic->retry) &&
	    attach_open_or_start(lodic, false, &s) == 0) {
		lodic->segment = s;
		retry_reset(&lodic->retry);
	}
	if (s)
		s->users++;
	return s;
}

static int attach_take_options(struct lodic *lodic, const struct lodic_options *o)
{
	struct settings settings = { 0 };
	int err;

	/* Such a program's user could make it read another file's bytes, from a service
	 * of the user's own. */
	if (settings_privileged())
		return -EPERM;
	if (o->scheme > LODIC_HAZARD)
		return -EINVAL;
	if (o->cache_bytes && (o->cache_bytes < SERVICE_MIN_CACHE_BYTES ||
	                       o->cache_bytes > SERVICE_MAX_CACHE_BYTES))
		return -EINVAL;
	if (o->socket)
		err = settings_set(&settings, SETTING_SOCKET, o->socket,
		                   SETTINGS_OPTION);
	else
		err = settings_find_socket(&settings, true);
	settings_free(&settings);
	if (err)
		return err;
	lodic->start.socket_path = strdup(settings.socket);
	lodic->start.program = o->service ? strdup(o->service) : start_find_program();
	lodic->start.cache_bytes = o->cache_bytes;
	lodic->start.scheme = o->scheme;
	lodic->start.idle_exit_ms = o->idle_exit_ms;
	lodic->start.wait_ms = START_WAIT_MS;
	return lodic->start.socket_path && lodic->start.program ? 0 : -ENOMEM;
}

static void attach_free(struct lodic *lodic)
{
	pthread_mutex_destroy(&lodic->lock);
	mapping_free_wiped(lodic->mark, sizeof(*lodic->mark));
	free(lodic->start.socket_path);
	free(lodic->start.program);
	free(lodic);
}

EXPORT int lodic_attach(const struct lodic_options *options, struct lodic **ret_lodic)
{
	struct lodic_options o = { 0 };
	struct lodic *lodic;
	int err;

	if (!ret_lodic || (options && (options->bytes == 0 || options->bytes > 4096)))
		return -EINVAL;
	if (options)
		memcpy(&o, options,
		       options->bytes < sizeof(o) ? options->bytes : sizeof(o));
	lodic = calloc(1, sizeof(*lodic));
	if (!lodic)
		return -ENOMEM;
	pthread_mutex_init(&lodic->lock, NULL);
	lodic->mark = mapping_alloc_wiped(sizeof(*lodic->mark));
	err = lodic->mark ? attach_take_options(lodic, &o) : -ENOMEM;
	if (!err) {
		*lodic->mark = 1;
		err = attach_open_or_start(lodic, true, &lodic->segment);
	}
	if (err) {
		attach_free(lodic);
		return err;
	}
	*ret_lodic = lodic;
	return 0;
}

EXPORT void lodic_detach(struct lodic *lodic)
{
	/* A forked child does not have the segment's memory, and the socket is the
	 * parent's. */
	if (lodic && lodic->segment && !attach_forked(lodic))
		segment_put(lodic->segment);
	if (lodic)
		attach_free(lodic);
}

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See policy_record.h. The lock guards all that is not constant; nobody writes or waits with it.
 * The thread ends by itself, also where nobody waits for it any more. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/service/tier/policy_record.h"
#include "lib/service/tier/state.h"

/* What waits to be written: a million blocks' ways into the cache. */
#define BUFFER_BYTES ((u64)64 << 20)
#define WAKE_BYTES (BUFFER_BYTES / 64)
#define END_S 2
/* How often it writes a piece again that the file system has interrupted: no signal comes here. */
#define WRITE_TRIES 16u

struct policy_record {
	pthread_mutex_t lock;
	pthread_cond_t wanted, over;
	char *path, *fresh; /* its name, and that before it serves */
	int fd;
	u64 put, taken; /* bytes since the beginning; those between are in buffer */
	bool full;
	bool serves, ends, left, is_over;
	int error; /* of the first write that failed */
	char buffer[BUFFER_BYTES];
};

static void record_free(struct policy_record *r)
{
	free(r->path);
	free(r->fresh);
	free(r);
}

static int record_write(int fd, const char *at, u64 bytes)
{
	u32 tries = WRITE_TRIES;

	while (bytes > 0) {
		ssize_t n = write(fd, at, bytes);

		if (n < 0 && errno == EINTR && --tries > 0)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		at += n;
		bytes -= (u64)n;
	}
	return 0;
}

/* Writes a piece of the buffer. The lock is held, but not while it writes. */
static void record_drain(struct policy_record *r)
{
	u64 at = r->taken % BUFFER_BYTES, n = r->put - r->taken;
	int err = r->error;

	n = n < BUFFER_BYTES - at ? n : BUFFER_BYTES - at;
	pthread_mutex_unlock(&r->lock);
	if (!err)
		err = record_write(r->fd, r->buffer + at, n);
	pthread_mutex_lock(&r->lock);
	r->taken += n;
	r->error = err;
}

/* The same for the name. */
static void record_name(struct policy_record *r)
{
	int err;

	pthread_mutex_unlock(&r->lock);
	err = rename(r->fresh, r->path) != 0 ? -errno : 0;
	if (err)
		unlink(r->fresh);
	pthread_mutex_lock(&r->lock);
	r->error = r->error ? r->error : err;
}

static void *record_run(void *arg)
{
	struct policy_record *r = arg;
	bool named = false, left;

	pthread_mutex_lock(&r->lock);
	for (;;) {
		if (r->serves && !named) {
			named = true;
			record_name(r);
		} else if (r->ends && (!named || r->taken == r->put)) {
			break;
		} else if (r->taken != r->put) {
			record_drain(r);
		} else {
			pthread_cond_wait(&r->wanted, &r->lock);
		}
	}
	pthread_mutex_unlock(&r->lock);
	if (!named)
		unlink(r->fresh);
	named = close(r->fd) == 0;
	pthread_mutex_lock(&r->lock);
	r->error = r->error || named ? r->error : -EIO;
	r->is_over = true;
	left = r->left;
	pthread_cond_signal(&r->over);
	pthread_mutex_unlock(&r->lock);
	if (left)
		record_free(r);
	return NULL;
}

static int record_start(struct policy_record *r)
{
	sigset_t all, old;
	pthread_t thread;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&thread, NULL, record_run, r);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!err)
		pthread_detach(thread);
	return -err;
}

static int record_open(struct policy_record *r, const char *path)
{
	struct stat st;

	r->path = strdup(path);
	if (!r->path || asprintf(&r->fresh, "%s.XXXXXX", path) < 0) {
		r->fresh = NULL;
		return -ENOMEM;
	}
	/* A FIFO or a device would be lost, and a link would not lead there any more. */
	if (lstat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return -EINVAL;
	r->fd = mkostemp(r->fresh, O_CLOEXEC);
	return r->fd < 0 ? -errno : 0;
}

int policy_record_begin(const char *path, struct policy_record **ret_record,
                        const char **ret_why)
{
	struct policy_record *r = calloc(1, sizeof(*r));
	int err;

	if (!r)
		return -ENOMEM;
	r->fd = -1;
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->wanted, NULL);
	pthread_cond_init(&r->over, NULL);
	err = record_open(r, path);
	if (!err)
		err = record_start(r);
	if (!err) {
		*ret_record = r;
		return 0;
	}
	*ret_why = service_why(err == -EINVAL
	                               ? "the policy's record, %s, must be a regular "
	                                 "file"
	                               : "cannot write the policy's record, %s",
	                       path);
	if (r->fd >= 0) {
		unlink(r->fresh);
		close(r->fd);
	}
	record_free(r);
	return err;
}

void policy_record_put(struct policy_record *r, const char *text, u32 bytes)
{
	u64 at, n;

	pthread_mutex_lock(&r->lock);
	r->full |= r->put + bytes - r->taken > BUFFER_BYTES;
	if (!r->full && !r->error) {
		at = r->put % BUFFER_BYTES;
		n = bytes < BUFFER_BYTES - at ? bytes : BUFFER_BYTES - at;
		memcpy(r->buffer + at, text, n);
		memcpy(r->buffer, text + n, bytes - n);
		r->put += bytes;
	}
	if (r->put - r->taken > WAKE_BYTES)
		pthread_cond_signal(&r->wanted);
	pthread_mutex_unlock(&r->lock);
}

void policy_record_serve(struct policy_record *r)
{
	pthread_mutex_lock(&r->lock);
	r->serves = true;
	pthread_cond_signal(&r->wanted);
	pthread_mutex_unlock(&r->lock);
}

/* The lock is held. */
static const char *record_why(const struct policy_record *r)
{
	if (r->error)
		return service_why("a write failed: %s", strerror(-r->error));
	return r->full ? "its disk is too slow for it" : NULL;
}

const char *policy_record_tick(struct policy_record *r)
{
	const char *why;

	pthread_mutex_lock(&r->lock);
	pthread_cond_signal(&r->wanted);
	why = record_why(r);
	pthread_mutex_unlock(&r->lock);
	return why;
}

const char *policy_record_end(struct policy_record *r, bool waits)
{
	const char *why;
	struct timespec until;
	bool is_over;
	int err = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += END_S;
	pthread_mutex_lock(&r->lock);
	r->ends = true;
	pthread_cond_signal(&r->wanted);
	while (waits && !r->is_over && err == 0)
		err = pthread_cond_timedwait(&r->over, &r->lock, &until);
	is_over = r->is_over;
	why = is_over || r->error || r->full ? record_why(r)
	                                     : "its file system does not answer";
	r->left = true;
	pthread_mutex_unlock(&r->lock);
	if (is_over)
		record_free(r);
	return why;
}

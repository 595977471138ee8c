/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See policy_record.h. The lock guards all that is not constant; nobody writes or waits with it.
 * The thread ends by itself, also where nobody waits for it any more. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/port/thread.h"
#include "lib/service/tier/policy_record.h"
#include "lib/service/tier/state.h"

/* What waits to be written: a million blocks' ways into the cache. */
#define BUFFER_BYTES ((u64)64 << 20)
#define WAKE_BYTES (BUFFER_BYTES / 64)
#define END_NS (2000 * NS_PER_MS)
/* How often it writes a piece again that the file system has interrupted: no signal comes here. */
#define WRITE_TRIES 16u
/* What is added to the file's name before it serves. Another file may have that name. */
#define FRESH_FORMAT "%s.%06x"
#define FRESH_BYTES 8u
#define FRESH_TRIES 100u

struct policy_record {
	struct port_lock lock;
	struct port_condition wanted, over;
	char *path, *fresh; /* its name, and that before it serves */
	int fd;
	u64 written;    /* bytes of the file, the thread's */
	u64 put, taken; /* bytes since the beginning; those between are in buffer */
	bool full;
	bool serves, ends, left, is_over;
	int error; /* of the first write that failed */
	char buffer[BUFFER_BYTES];
};

static void record_free(struct policy_record *r)
{
	port_condition_end(&r->wanted);
	port_condition_end(&r->over);
	port_lock_end(&r->lock);
	port_free(r->path);
	port_free(r->fresh);
	port_free(r);
}

static int record_write(struct policy_record *r, const char *at, u64 bytes)
{
	u32 tries = WRITE_TRIES;

	while (bytes > 0) {
		int64_t n = port_write(r->fd, at, bytes, r->written);

		if (n == -EINTR && --tries > 0)
			continue;
		if (n <= 0)
			return n < 0 ? (int)n : -EIO;
		at += n;
		bytes -= (u64)n;
		r->written += (u64)n;
	}
	return 0;
}

/* Writes a piece of the buffer. The lock is held, but not while it writes. */
static void record_drain(struct policy_record *r)
{
	u64 at = r->taken % BUFFER_BYTES, n = r->put - r->taken;
	int err = r->error;

	n = n < BUFFER_BYTES - at ? n : BUFFER_BYTES - at;
	port_lock_give(&r->lock);
	if (!err)
		err = record_write(r, r->buffer + at, n);
	port_lock_take(&r->lock);
	r->taken += n;
	r->error = err;
}

/* The same for the name. */
static void record_name(struct policy_record *r)
{
	int err;

	port_lock_give(&r->lock);
	err = port_rename(r->fresh, r->path);
	if (err)
		port_remove(r->fresh);
	port_lock_take(&r->lock);
	r->error = r->error ? r->error : err;
}

static void record_run(void *arg)
{
	struct policy_record *r = arg;
	bool named = false, left;
	int err;

	port_lock_take(&r->lock);
	for (;;) {
		if (r->serves && !named) {
			named = true;
			record_name(r);
		} else if (r->ends && (!named || r->taken == r->put)) {
			break;
		} else if (r->taken != r->put) {
			record_drain(r);
		} else {
			port_condition_wait(&r->wanted, &r->lock);
		}
	}
	port_lock_give(&r->lock);
	if (!named)
		port_remove(r->fresh);
	err = port_shut(r->fd);
	port_lock_take(&r->lock);
	r->error = r->error || !err ? r->error : -EIO;
	r->is_over = true;
	left = r->left;
	port_condition_tell(&r->over);
	port_lock_give(&r->lock);
	if (left)
		record_free(r);
}

static int record_open(struct policy_record *r, const char *path)
{
	size_t room = strlen(path) + FRESH_BYTES;
	struct port_file there;
	u32 tries = FRESH_TRIES;

	r->path = port_text(path);
	r->fresh = port_alloc(room);
	if (!r->path || !r->fresh)
		return -ENOMEM;
	/* A FIFO or a device would be lost, and a link would not lead there any more. */
	if (port_look_at(path, false, &there) == 0 && there.kind != PORT_FILE_REGULAR)
		return -EINVAL;
	do {
		snprintf(r->fresh, room, FRESH_FORMAT, path,
		         (u32)(host_now_ns() + tries) & 0xffffff);
		r->fd = port_create(r->fresh);
	} while (r->fd == -EEXIST && --tries > 0);
	return r->fd < 0 ? r->fd : 0;
}

int policy_record_begin(const char *path, struct policy_record **ret_record,
                        const char **ret_why)
{
	struct policy_record *r = port_alloc(sizeof(*r));
	int err;

	if (!r)
		return -ENOMEM;
	r->fd = -1;
	port_lock_init(&r->lock);
	port_condition_init(&r->wanted);
	port_condition_init(&r->over);
	err = record_open(r, path);
	if (!err)
		err = port_thread_start_alone(record_run, r, 0);
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
		port_remove(r->fresh);
		port_shut(r->fd);
	}
	record_free(r);
	return err;
}

void policy_record_put(struct policy_record *r, const char *text, u32 bytes)
{
	u64 at, n;

	port_lock_take(&r->lock);
	r->full |= r->put + bytes - r->taken > BUFFER_BYTES;
	if (!r->full && !r->error) {
		at = r->put % BUFFER_BYTES;
		n = bytes < BUFFER_BYTES - at ? bytes : BUFFER_BYTES - at;
		memcpy(r->buffer + at, text, n);
		memcpy(r->buffer, text + n, bytes - n);
		r->put += bytes;
	}
	if (r->put - r->taken > WAKE_BYTES)
		port_condition_tell(&r->wanted);
	port_lock_give(&r->lock);
}

void policy_record_serve(struct policy_record *r)
{
	port_lock_take(&r->lock);
	r->serves = true;
	port_condition_tell(&r->wanted);
	port_lock_give(&r->lock);
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

	port_lock_take(&r->lock);
	port_condition_tell(&r->wanted);
	why = record_why(r);
	port_lock_give(&r->lock);
	return why;
}

const char *policy_record_end(struct policy_record *r, bool waits)
{
	u64 until_ns = host_now_ns() + END_NS;
	bool is_over, in_time = waits;
	const char *why;

	port_lock_take(&r->lock);
	r->ends = true;
	port_condition_tell(&r->wanted);
	while (in_time && !r->is_over)
		in_time = port_condition_wait_until(&r->over, &r->lock, until_ns);
	is_over = r->is_over;
	why = is_over || r->error || r->full ? record_why(r)
	                                     : "its file system does not answer";
	r->left = true;
	port_lock_give(&r->lock);
	if (is_over)
		record_free(r);
	return why;
}

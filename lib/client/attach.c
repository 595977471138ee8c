/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Attaching to a service, and attaching again when it has died. The library repairs
 * nothing: a successor has an arena of its own.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "lib/client/attach.h"
#include "lib/client/error.h"
#include "lib/client/mapping.h"
#include "lib/port.h"
#include "lib/service/service.h"
#include "lib/settings.h"

/* How long the caller of lodic_attach() waits for a service to come up, and how often it
 * tries: each pause doubles the last. */
#define START_WAIT_MS 10000u
#define FIRST_PAUSE_NS 5000000
#define LAST_PAUSE_NS 80000000
/* Our choice: between two tries to tell the service something. */
#define TELL_PAUSE_NS 1000000
/* Our choice: no service ends so often while one program attaches. */
#define MOST_TURNS 64u

static bool attach_nobody_listens(int err)
{
	return err == -ENOENT || err == -ECONNREFUSED;
}

void attach_lock(struct lodic *lodic)
{
	int state = port_cancel_off();

	port_lock_take(&lodic->lock);
	lodic->cancel_state = state;
}

bool attach_trylock(struct lodic *lodic)
{
	int state = port_cancel_off();

	if (port_lock_try(&lodic->lock)) {
		lodic->cancel_state = state;
		return true;
	}
	port_cancel_as(state);
	return false;
}

void attach_unlock(struct lodic *lodic)
{
	int state = lodic->cancel_state;

	port_lock_give(&lodic->lock);
	port_cancel_as(state);
}

static void attach_set_segment(struct lodic *lodic, struct segment *s)
{
	if (lodic->segment)
		segment_put(lodic->segment);
	lodic->segment = s;
	host_store_relaxed(&lodic->generation, s ? s->generation : GENERATION_NONE);
}

/* The channel leads nowhere: until the next try is due, err says why. */
static void attach_failed(struct lodic *lodic, int err)
{
	lodic->greeted = false;
	/* A reset: the service died just now. */
	lodic->error = err == -ECONNRESET ? -ECONNREFUSED : err;
	retry_failed(&lodic->retry);
}

/* The service has answered HELLO. If it is the one that this process knows already, only
 * the channel is new. Otherwise its arena becomes the current segment. */
static void attach_greeted(void *owner, const struct channel_reply *reply)
{
	struct lodic *lodic = owner;
	struct segment *s;
	/* -EINPROGRESS means something else to those who wait for this. */
	int err = reply->error == -EINPROGRESS ? -EPROTO : reply->because;

	if (!err && (!lodic->segment ||
	             lodic->segment->generation != reply->wire->hello.generation)) {
		err = segment_map(reply, &s);
		if (!err)
			attach_set_segment(lodic, s);
	}
	if (err) {
		channel_close(&lodic->channel, err);
		attach_failed(lodic, err);
		return;
	}
	lodic->greeted = true;
	retry_reset(&lodic->retry);
}

int attach_step(struct lodic *lodic)
{
	static const struct wire_request hello = { .version = WIRE_VERSION,
		                                   .op = WIRE_HELLO };
	struct channel *c = &lodic->channel;
	int err;

	if (lodic->segment && !segment_alive(lodic->segment)) {
		lodic->greeted = false;
		channel_close(c, -ECONNRESET);
		attach_set_segment(lodic, NULL);
	}
	if (!channel_poll(c))
		return -EINPROGRESS;
	if (lodic->greeted && c->socket >= 0)
		return 0;
	/* After a time-out the service is left alone for a while. After anything else it
	 * may be worth a try at once. */
	if (lodic->greeted && c->error == -ETIMEDOUT)
		attach_failed(lodic, c->error);
	lodic->greeted = false;
	if (!retry_due(&lodic->retry))
		return lodic->error;
	err = channel_connect(c, lodic->start.socket_path, lodic->start.trusted);
	if (!err)
		err = channel_ask(c, &hello, -1, host_now_ns() + REQUEST_TIMEOUT_NS,
		                  attach_greeted, lodic);
	if (!err)
		return -EINPROGRESS;
	channel_close(c, err); /* if it could not be asked: the next try makes another one */
	attach_failed(lodic, err);
	return lodic->error;
}

int attach_wait(struct lodic *lodic)
{
	u32 turns = 0;
	int err;

	/* Ends, because each turn but one ends a request, and the last one is HELLO. There are more
	 * if the service has ended since it answered that, as in a resize. */
	while ((err = attach_step(lodic)) == -EINPROGRESS && turns++ < MOST_TURNS)
		channel_wait(&lodic->channel);
	if (err != -EINPROGRESS)
		return err;
	/* Its arena is always dead already. */
	channel_close(&lodic->channel, -EPROTO);
	attach_failed(lodic, -EPROTO);
	return -EPROTO;
}

/* Lets go of the lock meanwhile: a service may take long to come up. A thread that only
 * wants to close a file must not wait for that. */
static int attach_start_service(struct lodic *lodic)
{
	int state = lodic->cancel_state;
	struct start_failure failure;
	int err;

	port_lock_give(&lodic->lock);
	err = start_service(&lodic->start, &failure);
	port_lock_take(&lodic->lock);
	lodic->cancel_state = state;
	return err ? error_says(failure.reason, err, failure.words) : 0;
}

/* Is there a folder for the socket? A service could not make its socket without. */
static bool attach_has_folder(const struct lodic *lodic)
{
	char folder[PATH_MAX];
	struct port_file file;

	snprintf(folder, sizeof(folder), "%s", lodic->start.socket_path);
	*(strrchr(folder, '/') + 1) = '\0';
	return port_look_at(folder, true, &file) != -ENOENT;
}

/* Why nobody is connected, where the errno alone does not say it. may_start: this call may start a
 * service, if it finds the program. */
static int attach_explain(const struct lodic *lodic, int err, bool may_start)
{
	const char *path = lodic->start.socket_path;
	char words[ERROR_WORDS_BYTES];
	struct port_file file;

	switch (err) {
	case -ENOENT:
		if (!attach_has_folder(lodic)) {
			snprintf(words, sizeof(words),
			         "the folder of the socket %s does not exist: make it",
			         path);
			return error_says(LODIC_REASON_NO_FOLDER, err, words);
		}
		return reason_encode(may_start ? LODIC_REASON_NO_PROGRAM
		                               : LODIC_REASON_NO_SERVICE);
	case -EACCES: return reason_encode(LODIC_REASON_SOCKET_DENIED);
	case -EPERM:
		return reason_encode(port_look_at(path, false, &file) == 0 &&
		                                     file.uid != port_user()
		                             ? LODIC_REASON_FOREIGN_SERVICE
		                             : LODIC_REASON_NOT_A_SOCKET);
	case -ETIMEDOUT: return reason_encode(LODIC_REASON_NO_ANSWER);
	case -ECONNRESET: return reason_encode(LODIC_REASON_SERVICE_DIED);
	default: return err;
	}
}

int attach_start(struct lodic *lodic)
{
	int err;

	/* A try costs little where nobody listens, and there may be a service now. */
	if (attach_nobody_listens(lodic->error))
		retry_put_off(&lodic->retry, 0);
	err = attach_wait(lodic);
	/* Readers try to connect all the time, so that their retry says nothing of starts. */
	if (!attach_nobody_listens(err) || !*lodic->start.program ||
	    !retry_due(&lodic->start_retry))
		return err;
	if (attach_start_service(lodic) != 0) {
		retry_failed(&lodic->start_retry);
		return err;
	}
	retry_reset(&lodic->start_retry);
	retry_reset(&lodic->retry);
	return attach_wait(lodic);
}

/* Attaches for the first time, and starts a service when none listens. A service that is
 * just leaving, or that another process is starting, holds the lock of the socket. Then the
 * one started here gives up, and this function tries again. */
static int attach_first(struct lodic *lodic, bool may_start)
{
	u64 begun = host_now_ns();
	u64 pause_ns = FIRST_PAUSE_NS;
	int err;

	/* Each turn that does not return looks at one of the two deadlines. */
	for (;;) {
		retry_reset(&lodic->retry);
		err = attach_wait(lodic);
		if (err == -EAGAIN) {
			/* More programs than the service has room for come at once. */
			if (host_now_ns() - begun > REQUEST_TIMEOUT_NS)
				return reason_encode(LODIC_REASON_NO_ANSWER);
		} else if (!attach_nobody_listens(err) || !*lodic->start.program ||
		           !attach_has_folder(lodic)) {
			return attach_explain(lodic, err, may_start);
		} else if (host_now_ns() - begun > (u64)START_WAIT_MS * 1000000) {
			return reason_encode(LODIC_REASON_SLOW_START);
		} else {
			err = attach_start_service(lodic);
			if (err && err != -EADDRINUSE)
				return err;
			retry_reset(&lodic->retry);
			err = attach_wait(lodic);
			if (!err)
				return 0;
		}
		port_sleep(pause_ns);
		if (pause_ns < LAST_PAUSE_NS)
			pause_ns *= 2;
	}
}

void attach_leave(struct lodic *lodic)
{
	lodic->greeted = false;
	channel_close(&lodic->channel, -ECONNRESET);
	if (lodic->segment)
		segment_leave(lodic->segment);
	attach_set_segment(lodic, NULL);
}

int attach_move(struct lodic *lodic, const char *socket, u32 trusted, u64 at_ns)
{
	char *path = port_text(socket);

	if (!path)
		return -ENOMEM;
	port_free(lodic->start.socket_path);
	lodic->start.socket_path = path;
	lodic->start.trusted = trusted;
	retry_reset(&lodic->retry);
	lodic->error = -EAGAIN; /* nobody has tried yet */
	retry_put_off(&lodic->retry, at_ns);
	return 0;
}

int attach_ask(struct lodic *lodic, const struct wire_request *request, int fd,
               void (*done)(void *owner, const struct channel_reply *reply),
               void *owner)
{
	return channel_ask(&lodic->channel, request, fd,
	                   host_now_ns() + REQUEST_TIMEOUT_NS, done, owner);
}

int attach_call(struct lodic *lodic, const struct wire_request *request, int fd,
                void (*done)(void *owner, const struct channel_reply *reply),
                void *owner)
{
	int err = attach_wait(lodic);

	if (!err)
		err = attach_ask(lodic, request, fd, done, owner);
	if (err == -ECONNRESET) { /* the service had hung up: once more */
		err = attach_wait(lodic);
		if (!err)
			err = attach_ask(lodic, request, fd, done, owner);
	}
	if (!err)
		channel_wait(&lodic->channel);
	return err;
}

int attach_call_same(struct lodic *lodic, u64 generation,
                     const struct wire_request *request, int fd,
                     void (*done)(void *owner, const struct channel_reply *reply),
                     void *owner)
{
	int tries = 0;
	int err;

	do { /* twice: the service may have hung up, and live */
		err = attach_wait(lodic);
		if (!err && lodic->generation != generation)
			return -ECONNRESET;
		if (!err)
			err = attach_ask(lodic, request, fd, done, owner);
	} while (err == -ECONNRESET && tries++ == 0);
	if (!err)
		channel_wait(&lodic->channel);
	if (attach_nobody_listens(err))
		return -ECONNRESET;
	return err == -EAGAIN ? -ETIMEDOUT : err; /* it lets nobody in */
}

void attach_tell(struct lodic *lodic, u64 generation,
                 const struct wire_request *request)
{
	u64 deadline = host_now_ns() + REQUEST_TIMEOUT_NS;
	struct channel *c = &lodic->channel;
	int err;

	channel_wait(c);
	if (!lodic->greeted || lodic->generation != generation ||
	    !segment_alive(lodic->segment))
		return;
	/* The kernel may lack memory for the message. */
	while ((err = channel_ask(c, request, -1, deadline, channel_ignore, NULL)) != 0 &&
	       err != -ECONNRESET && host_now_ns() < deadline)
		port_sleep(TELL_PAUSE_NS);
	if (err)
		channel_close(c, err); /* the service hears that */
	else
		channel_wait(c);
}

/* Why there is no socket's path: the sentence is that of the settings. */
static enum lodic_reason attach_settings_reason(int err)
{
	switch (err) {
	case -EACCES: return LODIC_REASON_FOREIGN_FOLDER;
	case -ENAMETOOLONG: return LODIC_REASON_LONG_PATH;
	case -EINVAL: return LODIC_REASON_SETTING;
	default: return LODIC_REASON_NO_FOLDER;
	}
}

static int attach_take_options(struct lodic *lodic, const struct lodic_options *o)
{
	struct settings settings = { 0 };
	int err;

	/* Such a program's user could make it read another file's bytes, from a service
	 * of the user's own. */
	if (settings_privileged())
		return error_because(LODIC_REASON_PRIVILEGED);
	if (o->scheme > LODIC_HAZARD)
		return error_because(LODIC_REASON_ARGUMENT);
	if (o->cache_bytes && (o->cache_bytes < SERVICE_MIN_CACHE_BYTES ||
	                       o->cache_bytes > SERVICE_MAX_CACHE_BYTES))
		return error_because(LODIC_REASON_CACHE_SIZE);
	if (o->hold_bytes > SERVICE_MAX_CACHE_BYTES)
		return error_because(LODIC_REASON_CACHE_SIZE);
	if (o->socket)
		err = settings_set(&settings, SETTING_SOCKET, o->socket,
		                   SETTINGS_OPTION);
	else
		err = settings_find_socket(&settings, true);
	settings_free(&settings);
	if (err)
		return error_says(attach_settings_reason(err), err, settings.why);
	lodic->start.socket_path = port_text(settings.socket);
	lodic->start.trusted = settings_trusted();
	lodic->start.program =
		o->service ? port_text(o->service) : start_find_program();
	lodic->start.cache_bytes = o->cache_bytes;
	lodic->start.hold_bytes = o->hold_bytes;
	lodic->start.scheme = o->scheme;
	lodic->start.idle_exit_ms = o->idle_exit_ms;
	lodic->start.wait_ms = START_WAIT_MS;
	return lodic->start.socket_path && lodic->start.program ? 0 : -ENOMEM;
}

static void attach_free(struct lodic *lodic)
{
	/* A forked child does not have the segment's memory, and the socket is the
	 * parent's. */
	if (!attach_forked(lodic)) {
		channel_close(&lodic->channel, -ECONNRESET);
		attach_set_segment(lodic, NULL);
	}
	copy_end(&lodic->copies);
	port_lock_end(&lodic->lock);
	mapping_free_wiped(lodic->mark, sizeof(*lodic->mark));
	port_free(lodic->start.socket_path);
	port_free(lodic->start.program);
	port_free(lodic);
}

void attach_get(struct lodic *lodic)
{
	host_fetch_add(&lodic->users, 1);
}

void attach_put(struct lodic *lodic)
{
	if (host_fetch_add(&lodic->users, -(u64)1) == 1)
		attach_free(lodic);
}

/* An attachment that leads nowhere yet; the lock is held. -ENOMEM. */
static int attach_make(struct lodic **ret_lodic)
{
	struct lodic *lodic = port_alloc(sizeof(*lodic));

	if (!lodic)
		return -ENOMEM;
	port_lock_init(&lodic->lock);
	channel_init(&lodic->channel);
	lodic->users = 1;
	lodic->mark = mapping_alloc_wiped(sizeof(*lodic->mark));
	if (!lodic->mark) {
		port_free(lodic);
		return -ENOMEM;
	}
	*lodic->mark = 1;
	attach_lock(lodic);
	*ret_lodic = lodic;
	return 0;
}

int attach_later(const char *socket, u32 trusted, struct lodic **ret_lodic)
{
	struct lodic *lodic;
	int err = attach_make(&lodic);

	if (err)
		return err;
	lodic->start.socket_path = port_text(socket);
	lodic->start.trusted = trusted;
	lodic->start.program = port_text("");
	err = lodic->start.socket_path && lodic->start.program ? 0 : -ENOMEM;
	attach_unlock(lodic);
	if (err)
		attach_free(lodic);
	else
		*ret_lodic = lodic;
	return err;
}

EXPORT int lodic_attach(const struct lodic_options *options, struct lodic **ret_lodic)
{
	struct lodic_options o = { 0 };
	struct lodic *lodic;
	int err;

	error_forget();
	if (!ret_lodic || (options && (options->bytes == 0 || options->bytes > 4096)))
		return error_because(LODIC_REASON_ARGUMENT);
	if (options)
		memcpy(&o, options,
		       options->bytes < sizeof(o) ? options->bytes : sizeof(o));
	err = attach_make(&lodic);
	if (err)
		return err;
	err = attach_take_options(lodic, &o);
	if (!err)
		err = attach_first(lodic, !o.service || *o.service);
	attach_unlock(lodic);
	if (err)
		attach_free(lodic);
	else
		*ret_lodic = lodic;
	return error_plain(err);
}

EXPORT void lodic_detach(struct lodic *lodic)
{
	if (lodic)
		attach_put(lodic);
}

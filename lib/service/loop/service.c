/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The service's life: start, one loop over everything that can happen, end.
 *
 * Start   1 lock, 2 memory, 3 lease thread and alive mark, 4 listen, 5 ready.
 * Resize  another struct service takes this one's place in the loop (resize.h).
 * End     1 no new clients, 2 alive = dead, then the leases (L3 in lease.c), 3 reads under
 *         way, 4 clients, 5 memory, 6 lock. Readers need nothing from the service to go
 *         on: they see the mark and read from the kernel.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/port/limit.h"
#include "lib/port/set.h"
#include "lib/port/signal.h"
#include "lib/service/base/limits.h"
#include "lib/service/loop/run.h"
#include "lib/service/base/socket.h"
#include "lib/service/base/worker.h"
#include "lib/service/client/accept.h"
#include "lib/service/client/answer.h"
#include "lib/service/client/client.h"
#include "lib/service/client/stat.h"
#include "lib/service/file/files.h"
#include "lib/service/file/lease.h"
#include "lib/service/file/nameless.h"
#include "lib/service/frame/evict.h"
#include "lib/service/frame/fence.h"
#include "lib/service/frame/fill.h"
#include "lib/service/frame/mover.h"
#include "lib/service/frame/reads.h"
#include "lib/service/frame/sweep.h"
#include "lib/service/hold/hold_tier.h"
#include "lib/service/hold/holds.h"
#include "lib/service/succession/pressure.h"
#include "lib/service/succession/hand.h"
#include "lib/service/succession/reread.h"
#include "lib/service/succession/resize.h"
#include "lib/service/succession/takeover.h"
#include "lib/service/tier/policy.h"
#include "lib/service/succession/make.h"
#include "lib/service/succession/pass.h"
#include "lib/service/succession/whole.h"
#include "lib/service/succession/wire.h"
#include "lib/service/service.h"
#include "lib/service/succession/budget.h"
#include "lib/service/base/source.h"

/* How often the main thread looks around by itself: pinned orphans, unlinked files. */
#define TICK_MS 100u
/* The same while nobody is connected, but files are kept warm. */
#define TICK_ALONE_MS SERVICE_ALIVE_MS
/* A hang-up takes 40 us, so that these take a third of the 2 ms that a client may wait. */
#define EVENTS_PER_TURN 16
/* After a hint the service naps for so long, and no hint wakes it. A wake-up costs a reader
 * as much as a read from the kernel. Our choice: a fast reader's ring is full after 0.1 ms,
 * but the hints that it then drops come again. */
#define NAP_MS 2
/* So long at least it stays without a program when a user has loaded files. Our choice: they are
 * loaded for programs that start soon. */
#define KEPT_IDLE_MS ((u64)3600000)

static int service_take_path(struct service *s, const char **ret_why)
{
	size_t room = sizeof(s->base.socket_path);
	int err;

	if (!s->options.place.socket) {
		err = path_default_socket(s->base.socket_path, room, true);
		if (err)
			*ret_why = "the default folder for the socket cannot be used; "
				   "name a socket";
		return err;
	}
	if (strlen(s->options.place.socket) >= room) {
		*ret_why =
			service_why("a socket's path has at most %zu bytes", room - 1);
		return -ENAMETOOLONG;
	}
	if (!*s->options.place.socket) {
		*ret_why = "the socket's path is empty";
		return -EINVAL;
	}
	strcpy(s->base.socket_path, s->options.place.socket);
	return 0;
}

/* What the process has once, however often the cache is resized. */
static int service_open_process(struct service *s)
{
	s->signals = port_signals();
	accept_begin(&s->clients);
	return s->signals < 0 ? s->signals : worker_start(&s->base);
}

/* Takes the place of the service that t knows, if that still lives; else of none. */
static int service_succeed(struct service *s, struct takeover *t, const char **ret_why)
{
	int err = takeover_cache(s, t, ret_why);

	if (!err)
		err = takeover_place(s, t, ret_why);
	if (err != -ECONNRESET)
		return err;
	err = socket_lock_soon(&s->base, true, ret_why); /* HO6 */
	return err ? err : socket_listen(&s->base, ret_why);
}

static int service_begin_at(struct service *s, struct takeover *t, const char **ret_why)
{
	int err = 0;

	if (!t) /* HO6 */
		err = socket_lock_soon(&s->base, s->options.place.takeover, ret_why);
	if (!err)
		err = service_fill_arena(s, ret_why);
	if (!err)
		err = service_open_process(s);
	if (!err)
		err = pass_watch(s, s);
	if (err)
		return err;
	return t ? service_succeed(s, t, ret_why) : socket_listen(&s->base, ret_why);
}

static int service_begin(struct service *s, const char **ret_why)
{
	struct takeover *t = NULL;
	int err;

	budget_begin(&s->budget);
	err = service_shape(s, ret_why);

	if (!err)
		err = service_take_path(s, ret_why);
	if (err)
		return err;
	/* Each file and each context takes one, and each client two: more than the usual limit. */
	port_limit_raise_descriptors();
	snprintf(s->base.lock_path, sizeof(s->base.lock_path), "%s.lock",
	         s->base.socket_path);
	if (s->options.place.takeover)
		err = takeover_begin(s, &t, ret_why);
	if (!err && t) {
		budget_follow(&s->budget, takeover_cache_bytes(t));
		err = service_shape(s, ret_why);
	}
	if (!err)
		err = service_begin_at(s, t, ret_why);
	takeover_end(t);
	return err;
}

static void service_read_signal(struct service *s)
{
	struct port_signal signal;

	if (port_signals_take(s->signals, &signal) != 0)
		return;
	/* The kernel itself says so when the terminal goes. */
	if (signal.hang_up && !signal.by_kernel)
		reread_begin(&s->reread);
	else
		s->base.stopping = true;
}

static void service_handle(struct service *s, const struct source *source)
{
	switch ((enum source_kind)source->kind) {
	case SOURCE_LISTEN: break; /* service_wait() does it */
	case SOURCE_SIGNAL: service_read_signal(s); break;
	case SOURCE_WAKE: break; /* the loop takes the hints */
	case SOURCE_BROKEN:
		port_event_take(lease_broken_event(&s->files));
		files_hear(&s->files);
		nameless_hear(&s->files);
		break;
	case SOURCE_WORKER:
		port_event_take(worker_event(&s->base));
		worker_done(&s->base);
		break;
	case SOURCE_FENCE:
		fence_reap(&s->frames);
		evict_fenced(&s->frames);
		break;
	case SOURCE_RING: reads_reap(&s->frames); break;
	case SOURCE_CLIENT: client_ready(&s->clients, source->client); break;
	case SOURCE_PROCESS: client_process_died(&s->clients, source->client); break;
	case NR_SOURCES: break;
	}
}

/* How long the loop may sleep: milliseconds, -1 for ever. */
static int service_patience(struct service *s)
{
	u64 now = host_now_ns();
	u64 idle_ms =
		files_any_kept(&s->files) && s->options.place.idle_exit_ms < KEPT_IDLE_MS
			? KEPT_IDLE_MS
			: s->options.place.idle_exit_ms;
	u64 idle_end = client_idle_since(&s->clients) + idle_ms * NS_PER_MS;
	u64 alone = accept_is_paused(&s->clients) ? TICK_MS : TICK_ALONE_MS;
	u64 left;

	if (client_any(&s->clients) || resize_is_under_way(s) ||
	    reread_is_due(&s->reread) || hand_is_wanted(s))
		return TICK_MS;
	if (s->options.place.idle_exit_ms > 0) {
		if (now >= idle_end) {
			s->base.stopping = true;
			return 0;
		}
		left = (idle_end - now) / NS_PER_MS + 1;
		return (int)(left < alone ? left : alone);
	}
	return files_any(&s->files) || holds_any(&s->holding) || s->options.events.alive ||
	                       accept_wants_ticks(&s->clients) ||
	                       worker_wants_ticks(&s->base)
	               ? (int)alone
	               : -1;
}

/* Waits, unless there is work, and handles what has happened. */
static void service_wait(struct service *s, bool busy)
{
	void *heard[EVENTS_PER_TURN];
	int patience = service_patience(s);
	bool comes = false;
	int n;

	/* While hints come, readers need not wake the service: it looks by itself. */
	if (!busy && fill_heard_within(&s->frames, NAP_MS * NS_PER_MS))
		patience = NAP_MS;
	else if (busy || !arena_sleep(&s->memory.arena))
		patience = 0;
	n = port_set_wait(s->base.epoll, heard, EVENTS_PER_TURN, patience);
	arena_wake(&s->memory.arena);
	/* Programs that have hung up make room for those that come. */
	for (int i = 0; i < n; i++) {
		const struct source *source = heard[i];

		comes |= source->kind == SOURCE_LISTEN;
		service_handle(s, source);
	}
	if (comes)
		accept_clients(&s->clients, n < EVENTS_PER_TURN);
	client_free_gone(&s->clients);
}

void service_turn(struct service *s)
{
	bool busy;

	fill_take_hints(&s->frames);
	busy = evict_run(&s->frames);
	busy |= mover_run(&s->frames);
	if (!resize_stops_fills(s))
		busy |= fill_run(&s->frames);
	reads_turn(&s->frames);
	busy |= stat_run(&s->clients);
	busy |= holds_run(&s->holding);
	busy |= resize_run(s);
	busy |= answer_waiting(&s->clients);
	busy |= client_close_hung_up(&s->clients);
	busy |= client_reap(&s->clients);
	service_wait(s, busy);
	if (host_now_ns() < s->next_tick_ns)
		return;
	files_tick(&s->files);
	nameless_tick(&s->files);
	holds_tick(&s->holding);
	worker_tick(&s->base);
	accept_tick(&s->clients);
	client_tick(&s->clients);
	sweep_tick(&s->frames);
	evict_tick(&s->frames);
	policy_tick(&s->tiers);
	resize_tick(s);
	reread_tick(&s->reread);
	pressure_tick(&s->pressure);
	budget_tick(&s->budget);
	if (s->options.events.alive)
		s->options.events.alive(s->options.events.say_arg);
	s->next_tick_ns = host_now_ns() + TICK_MS * NS_PER_MS;
}

static u64 service_frame_bytes(const struct service *s)
{
	return s->options.sizes.cache_bytes ? s->options.sizes.cache_bytes
	                              : SERVICE_DEFAULT_CACHE_BYTES;
}

int service_open(const struct service_options *options, struct service **ret_service,
                 const char **ret_why)
{
	struct service *s = service_alloc(options);
	const char *blame;
	int err;

	if (!s)
		return -ENOMEM;
	err = service_begin(s, ret_why);
	if (err) {
		blame = limits_blame(err, service_frame_bytes(s));
		*ret_why = blame ? blame : *ret_why;
		service_shut(s);
		return err;
	}
	hold_tier_say(&s->holding);
	policy_serves(&s->tiers);
	/* From now on: making a large cache takes longer than some are idle. */
	client_idle_begin(&s->clients);
	s->next_tick_ns = host_now_ns();
	pressure_configure(&s->pressure, service_frame_bytes(s));
	*ret_service = s;
	return 0;
}

int service_run(const struct service_options *options, void (*ready)(void *arg),
                void *ready_arg, const char **ret_why)
{
	struct service *s;
	const char *why = NULL;
	struct port_signals_before signals;
	int err;

	/* Those that end the service come through a descriptor, and those about leases go to the
	 * lease thread. None may interrupt anything. */
	port_signals_block(&signals);
	err = service_open(options, &s, &why);
	if (!err) {
		if (ready)
			ready(ready_arg);
		while (!s->base.stopping) {
			service_turn(s);
			s = resize_next(s);
		}
		hand_stop(s); /* what it has said decides whether a successor goes on */
		if (s->options.events.stopping && !s->base.succeeded)
			s->options.events.stopping(s->options.events.say_arg);
		service_shut(s);
	}
	port_signals_as(&signals);
	if (err && ret_why)
		*ret_why = why;
	return err;
}

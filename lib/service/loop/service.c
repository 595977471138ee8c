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
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "lib/service/base/limits.h"
#include "lib/service/base/run.h"
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
#include "lib/service/loop/pressure.h"
#include "lib/service/memory/memory.h"
#include "lib/service/memory/nodes.h"
#include "lib/service/succession/hand.h"
#include "lib/service/succession/reread.h"
#include "lib/service/succession/resize.h"
#include "lib/service/succession/takeover.h"
#include "lib/service/tier/policy.h"
#include "lib/service/tier/tier.h"

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
#define DEFAULT_NR_FILES 4096u
#define MAX_NR_FILES (1u << 20)
#define MIN_FRAMES ((u32)(SERVICE_MIN_CACHE_BYTES >> BLOCK_SHIFT))
#define MIN_NR_ENTRIES (2 * CONTEXT_WAYS)
#define MAX_NR_ENTRIES (1u << 20)

/* The arena's shape from the options. */
static int service_shape(struct service *s, const char **ret_why)
{
	const struct service_options *o = &s->options;
	u64 bytes = o->cache_bytes ? o->cache_bytes : SERVICE_DEFAULT_CACHE_BYTES;
	u64 nr_frames = (bytes >> BLOCK_SHIFT) + FRAME_FIRST;
	u32 nr_files = o->nr_files ? o->nr_files : DEFAULT_NR_FILES;
	/* Hazard slots are not entries, and their number is fixed. */
	u32 nr_entries = o->scheme == ARENA_HAZARD ? 0 : o->nr_entries;
	int err;

	*ret_why = NULL;
	if (o->scheme >= ARENA_NR_SCHEMES)
		*ret_why = "there is no such scheme";
	else if (nr_frames + nr_files >= RECLAIM_MAX_FRAMES)
		*ret_why = "a cache ends below 8 TiB";
	else if (o->for_group &&
	         (o->scheme == ARENA_ATOMIC || o->scheme == ARENA_FROZEN))
		*ret_why =
			"for a group choose lodic or hazard: counters that all of it "
			"can write are no protection";
	else if (o->for_group && o->hold_bytes > 0)
		*ret_why = "for a group there are no holds; leave that setting out";
	else if (nr_files > MAX_NR_FILES)
		*ret_why = "at most 1048576 files can be held";
	else if (o->barrier > SERVICE_BARRIER_LOCK)
		*ret_why = "there is no such barrier";
	else if (nr_entries &&
	         (nr_entries < MIN_NR_ENTRIES || nr_entries > MAX_NR_ENTRIES ||
	          nr_entries & (nr_entries - 1)))
		*ret_why = "a context's entries are a power of two, from 16 to 1048576";
	if (*ret_why)
		return -EINVAL;
	s->shape = (struct arena_shape){
		.nr_frames = nr_frames > MIN_FRAMES ? (u32)nr_frames : MIN_FRAMES,
		.nr_files = nr_files,
		.nr_entries = nr_entries,
		.scheme = o->scheme,
	};
	arena_shape_default(&s->shape);
	/* A table of twice the quota: then few sets are ever full. */
	while (o->quota && !nr_entries && s->shape.nr_entries / 2 < o->quota &&
	       s->shape.nr_entries < MAX_NR_ENTRIES)
		s->shape.nr_entries *= 2;
	s->quota = o->quota ? o->quota : arena_default_quota(&s->shape);
	if (s->quota > s->shape.nr_entries)
		s->quota = s->shape.nr_entries;
	err = tier_shape(s, ret_why);
	return err ? err : policy_check(s, ret_why);
}

static int service_take_path(struct service *s, const char **ret_why)
{
	size_t room = sizeof(s->socket_path);
	int err;

	if (!s->options.socket) {
		err = path_default_socket(s->socket_path, room, true);
		if (err)
			*ret_why = "the default folder for the socket cannot be used; "
				   "name a socket";
		return err;
	}
	if (strlen(s->options.socket) >= room) {
		*ret_why =
			service_why("a socket's path has at most %zu bytes", room - 1);
		return -ENAMETOOLONG;
	}
	if (!*s->options.socket) {
		*ret_why = "the socket's path is empty";
		return -EINVAL;
	}
	strcpy(s->socket_path, s->options.socket);
	return 0;
}

/* Each file and each context takes one descriptor, and each client two: more than the usual soft
 * limit allows. */
static void service_raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

/* Signals that the service takes by a descriptor. */
static void service_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGHUP);
}

static int service_open_events(struct service *s)
{
	for (u32 kind = 0; kind < NR_SOURCES; kind++)
		s->sources[kind].kind = kind;
	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->epoll < 0 || s->wake < 0)
		return -errno;
	/* Edge-triggered, and never read: all readers share the description, and one of
	 * them could make a read wait. */
	return service_watch(s, s->wake, EPOLLIN | EPOLLET, &s->sources[SOURCE_WAKE]);
}

/* What the process has once, however often the cache is resized. */
static int service_open_process(struct service *s)
{
	sigset_t set;

	service_signals(&set);
	s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	s->spare = accept_open_spare();
	return s->signals < 0 ? -errno : worker_start(s);
}

int service_watch_process(struct service *s, const struct service *owner)
{
	int err = service_watch(s, owner->signals, EPOLLIN, &s->sources[SOURCE_SIGNAL]);

	if (!err)
		err = service_watch(s, worker_event(owner), EPOLLIN,
		                    &s->sources[SOURCE_WORKER]);
	return err;
}

int service_fill_arena(struct service *s, const char **ret_why)
{
	int err = service_open_events(s);

	if (!err)
		err = fence_start(s, ret_why);
	if (!err)
		err = memory_make(s, ret_why);
	if (!err)
		err = tier_init(s);
	if (!err)
		err = policy_init(s, ret_why);
	if (!err)
		err = evict_init(s);
	if (!err)
		err = mover_init(s);
	if (!err && fence_event(s) >= 0)
		err = service_watch(s, fence_event(s), EPOLLIN,
		                    &s->sources[SOURCE_FENCE]);
	if (!err)
		err = files_init(s);
	if (!err)
		err = fill_init(s);
	if (!err)
		err = lease_start(s);
	if (!err)
		err = holds_init(s);
	if (!err)
		err = service_watch(s, lease_broken_event(s), EPOLLIN,
		                    &s->sources[SOURCE_BROKEN]);
	return err;
}

/* Takes the place of the service that t knows, if that still lives; else of none. */
static int service_succeed(struct service *s, struct takeover *t, const char **ret_why)
{
	int err = takeover_cache(s, t, ret_why);

	if (!err)
		err = takeover_place(s, t, ret_why);
	if (err != -ECONNRESET)
		return err;
	err = socket_lock_soon(s, true, ret_why); /* HO6 */
	return err ? err : socket_listen(s, ret_why);
}

static int service_begin_at(struct service *s, struct takeover *t, const char **ret_why)
{
	int err = 0;

	if (!t) /* HO6 */
		err = socket_lock_soon(s, s->options.takeover, ret_why);
	if (!err)
		err = service_fill_arena(s, ret_why);
	if (!err)
		err = service_open_process(s);
	if (!err)
		err = service_watch_process(s, s);
	if (err)
		return err;
	return t ? service_succeed(s, t, ret_why) : socket_listen(s, ret_why);
}

static int service_begin(struct service *s, const char **ret_why)
{
	struct takeover *t = NULL;
	int err;

	budget_begin(s);
	err = service_shape(s, ret_why);

	if (!err)
		err = service_take_path(s, ret_why);
	if (err)
		return err;
	service_raise_limit();
	snprintf(s->lock_path, sizeof(s->lock_path), "%s.lock", s->socket_path);
	if (s->options.takeover)
		err = takeover_begin(s, &t, ret_why);
	if (!err && t) {
		budget_follow(s, takeover_cache_bytes(t));
		err = service_shape(s, ret_why);
	}
	if (!err)
		err = service_begin_at(s, t, ret_why);
	takeover_end(t);
	return err;
}

/* Undoes service_begin(), also one that failed half-way. */
static void service_end(struct service *s)
{
	socket_unlisten(s);
	holds_stop(s);
	resize_stop(s);
	worker_stop(s);
	lease_stop(s);
	resize_fini(s);
	reads_wait(s);
#ifdef LODIC_DEBUG
	if (s->reclaim.nodes && s->fill.nr_busy == 0)
		fill_check(s);
#endif
	client_free_all(s);
	opens_fini(&s->handed);
	stat_fini(s);
	fill_fini(s);
	mover_fini(s);
	evict_fini(s);
	fence_fini(s);
	nameless_forget(s);
	policy_fini(s);
	tier_fini(s);
	holds_fini(s);
	files_fini(s);
	if (s->fill.nr_busy ==
	    0) /* else a worker is stuck, and may still read into it */
		memory_free(s);
	service_close(&s->spare);
	service_close(&s->signals);
	service_close(&s->wake);
	service_close(&s->epoll);
	socket_unlock(s);
}

static void service_drain(int fd)
{
	u64 n;

	if (read(fd, &n, sizeof(n)) < 0)
		return; /* an earlier turn has read it */
}

static void service_read_signal(struct service *s)
{
	struct signalfd_siginfo info;

	if (read(s->signals, &info, sizeof(info)) != sizeof(info))
		return;
	/* The kernel itself sends SIGHUP when the terminal goes. */
	if (info.ssi_signo == SIGHUP && info.ssi_code != SI_KERNEL)
		reread_begin(s);
	else
		s->stopping = true;
}

static void service_handle(struct service *s, const struct source *source)
{
	switch ((enum source_kind)source->kind) {
	case SOURCE_LISTEN: break; /* service_wait() does it */
	case SOURCE_SIGNAL: service_read_signal(s); break;
	case SOURCE_WAKE: break; /* the loop takes the hints */
	case SOURCE_BROKEN:
		service_drain(lease_broken_event(s));
		files_hear(s);
		nameless_hear(s);
		break;
	case SOURCE_WORKER:
		service_drain(worker_event(s));
		worker_done(s);
		break;
	case SOURCE_FENCE:
		fence_reap(s);
		evict_fenced(s);
		break;
	case SOURCE_RING: reads_reap(s); break;
	case SOURCE_CLIENT: client_ready(s, source->client); break;
	case SOURCE_PROCESS: client_process_died(s, source->client); break;
	case NR_SOURCES: break;
	}
}

/* How long the loop may sleep: milliseconds, -1 for ever. */
static int service_patience(struct service *s)
{
	u64 now = host_now_ns();
	u64 idle_ms = s->nr_kept > 0 && s->options.idle_exit_ms < KEPT_IDLE_MS
	                      ? KEPT_IDLE_MS
	                      : s->options.idle_exit_ms;
	u64 idle_end = s->idle_since_ns + idle_ms * NS_PER_MS;
	u64 alone = s->accept_paused ? TICK_MS : TICK_ALONE_MS;
	u64 left;

	if (s->nr_clients > 0 || s->resize || s->reread_bytes > 0 || hand_is_wanted(s))
		return TICK_MS;
	if (s->options.idle_exit_ms > 0) {
		if (now >= idle_end) {
			s->stopping = true;
			return 0;
		}
		left = (idle_end - now) / NS_PER_MS + 1;
		return (int)(left < alone ? left : alone);
	}
	return s->nr_held > 0 || s->nr_orphans > 0 || holds_any(s) ||
	                       s->options.alive || accept_wants_ticks(s)
	               ? (int)alone
	               : -1;
}

/* Waits, unless there is work, and handles what has happened. */
static void service_wait(struct service *s, bool busy)
{
	struct epoll_event events[EVENTS_PER_TURN];
	int patience = service_patience(s);
	bool comes = false;
	int n;

	/* While hints come, readers need not wake the service: it looks by itself. */
	if (!busy && s->fill.now_ns - s->fill.hinted_ns < NAP_MS * NS_PER_MS)
		patience = NAP_MS;
	else if (busy || !arena_sleep(&s->arena))
		patience = 0;
	n = epoll_wait(s->epoll, events, EVENTS_PER_TURN, patience);
	arena_wake(&s->arena);
	/* Programs that have hung up make room for those that come. */
	for (int i = 0; i < n; i++) {
		const struct source *source = events[i].data.ptr;

		comes |= source->kind == SOURCE_LISTEN;
		service_handle(s, source);
	}
	if (comes)
		accept_clients(s, n < EVENTS_PER_TURN);
	client_free_gone(s);
}

void service_turn(struct service *s)
{
	bool busy;

	fill_take_hints(s);
	busy = evict_run(s);
	busy |= mover_run(s);
	reads_turn(s);
	if (!resize_stops_fills(s))
		busy |= fill_run(s);
	busy |= stat_run(s);
	busy |= holds_run(s);
	busy |= resize_run(s);
	busy |= answer_waiting(s);
	busy |= client_close_hung_up(s);
	busy |= client_reap(s);
	service_wait(s, busy);
	if (host_now_ns() < s->next_tick_ns)
		return;
	files_tick(s);
	nameless_tick(s);
	holds_tick(s);
	worker_tick(s);
	accept_tick(s);
	client_tick(s);
	sweep_tick(s);
	evict_tick(s);
	policy_tick(s);
	resize_tick(s);
	reread_tick(s);
	pressure_tick(s);
	budget_tick(s);
	if (s->options.alive)
		s->options.alive(s->options.say_arg);
	s->next_tick_ns = host_now_ns() + TICK_MS * NS_PER_MS;
}

/* Signals that end the service come through a descriptor, and those about leases go to the
 * lease thread. None may interrupt anything. */
static void service_block_signals(sigset_t *ret_old)
{
	sigset_t set;

	service_signals(&set);
	pthread_sigmask(SIG_BLOCK, &set, ret_old);
}

static struct service *service_alloc(const struct service_options *options)
{
	struct service *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->options = *options;
	nodes_look(&s->nodes, options->nodes);
	s->lock = s->listening = s->spare = s->epoll = s->wake = s->signals = -1;
	s->control.fd = s->control.reader_fd = s->data.fd = s->data.reader_fd = -1;
	s->shared.fd = s->shared.reader_fd = -1;
	s->fence.ask = s->fence.done = -1;
	s->started_ns = host_now_ns();
	s->sweep_round = 1;
	return s;
}

int service_make(const struct service *like, u64 cache_bytes,
                 struct service **ret_service, const char **ret_why)
{
	struct service *s = service_alloc(&like->options);
	int err;

	if (!s)
		return -ENOMEM;
	s->options.cache_bytes = cache_bytes;
	s->options.policy_record = NULL; /* it is of one arena */
	s->options.fast_bytes = tier_fast_of(&like->options, cache_bytes);
	err = service_shape(s, ret_why);
	if (err) {
		free(s);
		return err;
	}
	*ret_service = s;
	return 0;
}

static u64 service_frame_bytes(const struct service *s)
{
	return s->options.cache_bytes ? s->options.cache_bytes
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
	hold_tier_say(s);
	policy_serves(s);
	/* From now on: making a large cache takes longer than some are idle. */
	s->idle_since_ns = s->next_tick_ns = host_now_ns();
	pressure_configure(s, service_frame_bytes(s));
	*ret_service = s;
	return 0;
}

void service_shut(struct service *s)
{
	service_end(s);
	free(s);
}

int service_run(const struct service_options *options, void (*ready)(void *arg),
                void *ready_arg, const char **ret_why)
{
	struct service *s;
	const char *why = NULL;
	sigset_t old;
	int err;

	service_block_signals(&old);
	err = service_open(options, &s, &why);
	if (!err) {
		if (ready)
			ready(ready_arg);
		while (!s->stopping) {
			service_turn(s);
			s = resize_next(s);
		}
		if (s->options.stopping && !s->succeeded)
			s->options.stopping(s->options.say_arg);
		service_shut(s);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err && ret_why)
		*ret_why = why;
	return err;
}

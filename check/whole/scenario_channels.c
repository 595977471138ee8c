/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Programs whose threads share one connection. Each thread has contexts and files of its own, and
 * all read some files together. Meanwhile the service stands still until requests time out. Or it
 * is killed, told to end or replaced. Each answer must reach its asker, and each call must end.
 */
#include <string.h>

#include "check/whole/said.h"
#include "check/whole/scenarios.h"
#include "check/whole/settle.h"
#include "lib/port.h"

#define NS_PER_MS ((u64)1000000)
#define NS_PER_S ((u64)1000000000)
#define MOST_THREADS 6u
#define MOST_CONTEXTS 3u
#define MOST_PINS 2u
/* The library waits 2 s for an answer (channel.h). */
#define LOSES_NS (2500 * NS_PER_MS)
/* A call may wait for the lock while each other thread waits for an answer or two. Opens also wait
 * for a service that starts. Our choice: the longest calls of 20,000 schedules took a third. */
#define CALL_MOST_NS (60 * NS_PER_S)

static const u32 channel_calls[] = {
	CALL_SOCKET, CALL_CONNECT, CALL_SEND,  CALL_RECEIVE, CALL_PEER,
	CALL_ALLOC,  CALL_MAP,     CALL_WAIT,  CALL_ACCEPT,  CALL_DUP,
};
#define NR_CHANNEL_CALLS (u32)(sizeof(channel_calls) / sizeof(channel_calls[0]))

/* Where services are only killed, and each start takes seconds: no close waits for a start. Our
 * choice. */
#define START_NS (5 * NS_PER_S)
#define CLOSE_MOST_NS NS_PER_S

enum channels_kind { CHANNELS_STILL, CHANNELS_STARTS, CHANNELS_FAIL, CHANNELS_ANY, NR_KINDS };
static enum channels_kind channels_kind;

struct hub {
	struct lodic *lodic;
	struct world_open open[WORLD_FILES]; /* all threads read these */
	u32 nr_open;
	u32 nr_rounds;
};

struct seated {
	struct lodic_context *context;
	struct lodic_pin pins[MOST_PINS];
	u8 bytes[MOST_PINS][LODIC_BLOCK_BYTES];
	u32 nr_pins;
};

struct channels_thread {
	struct hub *hub;
	struct task *task;
	struct seated seats[MOST_CONTEXTS];
	struct world_open own;
	u32 nr_seats;
	bool has_own;
};

static void channels_took(u64 since_ns, const char *call)
{
	u64 ns = machine.now_ns - since_ns;

	if (channels_kind <= CHANNELS_STARTS && ns > CALL_MOST_NS)
		machine_fail("%s takes %llu ms", call, (unsigned long long)(ns / NS_PER_MS));
}

static void channels_closed(u64 since_ns, const char *call)
{
	channels_took(since_ns, call);
	if (channels_kind == CHANNELS_STARTS && machine.now_ns > since_ns + CLOSE_MOST_NS)
		machine_fail("%s waits for a service that starts", call);
}

/* ---- contexts ---- */

/* A seat that was left does not count its pins any more. */
static void seated_counts(const struct seated *s)
{
	struct lodic_context_stat stat = { 0 };

	lodic_context_stat(s->context, &stat, sizeof(stat));
	if (stat.pinned > s->nr_pins)
		machine_fail("a context has %u pins, and its thread has %u",
		             (u32)stat.pinned, s->nr_pins);
}

static void seated_unpin(struct seated *s)
{
	u32 i = --s->nr_pins;

	if (memcmp(s->pins[i].data, s->bytes[i], s->pins[i].bytes) != 0)
		machine_fail("a pinned block has changed");
	lodic_unpin(s->context, &s->pins[i]);
	world.nr_pins++;
}

static void seated_pin(struct seated *s, const struct world_open *open)
{
	u64 offset = machine_draw(WORLD_FILE_BYTES / 512) * (u64)512;
	u64 least = world_version(open);
	struct lodic_pin *pin = &s->pins[s->nr_pins];

	if (s->nr_pins == MOST_PINS) {
		seated_unpin(s);
		return;
	}
	if (lodic_pin(s->context, open->file, (off_t)offset, pin) != 0)
		return;
	world_check(open, offset, pin->data, pin->bytes, least);
	memcpy(s->bytes[s->nr_pins++], pin->data, pin->bytes);
}

static void seated_opens(struct channels_thread *t)
{
	struct seated *s = &t->seats[t->nr_seats];
	u64 since = machine.now_ns;

	if (t->nr_seats == MOST_CONTEXTS)
		return;
	s->nr_pins = 0;
	t->nr_seats += world_context_open(t->hub->lodic, &s->context) == 0;
	channels_took(since, "lodic_context_open()");
}

static void seated_closes(struct channels_thread *t)
{
	struct seated *s = &t->seats[machine_draw(t->nr_seats)], *last = &t->seats[t->nr_seats - 1];
	u64 since;

	while (s->nr_pins > 0)
		seated_unpin(s);
	while (last->nr_pins > 0) /* a pin must not move, and the last one takes the place */
		seated_unpin(last);
	since = machine.now_ns;
	world_context_close(s->context);
	channels_closed(since, "lodic_context_close()");
	*s = *last;
	t->nr_seats--;
}

/* ---- requests ---- */

static void channels_stat(struct lodic *lodic)
{
	struct lodic_stat stat = { 0 };
	u64 since = machine.now_ns;

	if (lodic_stat(lodic, &stat, sizeof(stat)) == 0) {
		u64 pid = stat.service_pid;

		if (pid == 0 || pid > machine.nr_processes ||
		    !world_is_service(&machine.processes[pid - 1]) || stat.clients == 0 ||
		    stat.cached > stat.frames)
			machine_fail("statistics are another answer: service %llu",
			             (unsigned long long)pid);
	}
	channels_took(since, "lodic_stat()");
}

static void channels_holds(struct lodic *lodic, const struct world_open *open)
{
	u64 offset = machine_draw(4) * (u64)4096, since = machine.now_ns, until;
	u64 least = world_version(open);
	struct lodic_hold *hold;
	int err;

	++*world_closed();
	err = lodic_hold(lodic, open->file, (off_t)offset, 8192,
	                 machine_draw(2) ? LODIC_WAIT : 0, &hold);
	channels_took(since, "lodic_hold()");
	if (err)
		return;
	until = machine.now_ns + machine_draw(2) * NS_PER_S;
	while ((err = lodic_hold_ready(hold)) == 0 && machine.now_ns < until)
		port_sleep(20 * NS_PER_MS);
	if (err == 1)
		world_check(open, offset, lodic_hold_data(hold), lodic_hold_bytes(hold), least);
	since = machine.now_ns;
	lodic_release(hold);
	channels_closed(since, "lodic_release()");
}

static void channels_own(struct channels_thread *t)
{
	u64 since = machine.now_ns;

	if (t->has_own) {
		world_close(&t->own);
		t->has_own = false;
		channels_closed(since, "lodic_close()");
	} else {
		t->has_own = world_open(t->hub->lodic, world_paths[machine_draw(WORLD_FILES)],
		                        &t->own);
		channels_took(since, "lodic_open()");
	}
}

static void channels_prefetch(const struct seated *s, const struct world_open *open)
{
	u64 since = machine.now_ns;
	u32 how = machine_draw(2) ? LODIC_WAIT : 0;

	lodic_prefetch(s->context, open->file, 0, machine_draw(2) * (u64)8192, how);
	channels_took(since, "lodic_prefetch()");
}

static const struct world_open *channels_any(const struct channels_thread *t)
{
	u32 which = machine_draw(t->hub->nr_open + t->has_own);

	return which < t->hub->nr_open ? &t->hub->open[which] : &t->own;
}

static void channels_reads(const struct seated *s, const struct world_open *open)
{
	for (u32 i = 1 + machine_draw(4); i > 0; i--)
		world_read(s->context, open);
}

static void channels_once(struct channels_thread *t)
{
	struct seated *s = t->nr_seats > 0 ? &t->seats[machine_draw(t->nr_seats)] : NULL;
	const struct world_open *open = channels_any(t);
	u32 what = machine_draw(16);

	if (!s || what == 0) {
		seated_opens(t);
		return;
	}
	switch (what) {
	case 1: seated_closes(t); return;
	case 2: channels_stat(t->hub->lodic); break;
	case 3: channels_holds(t->hub->lodic, open); break;
	case 4:
	case 5: channels_own(t); break;
	case 6: channels_prefetch(s, open); break;
	case 7: port_sleep(machine_draw(1000) * NS_PER_MS); break;
	case 8:
	case 9: seated_pin(s, open); break;
	case 10: said_cached(lodic_file_cached(open->file)); break;
	default: channels_reads(s, open); break;
	}
	seated_counts(s);
}

static void channels_run(void *arg)
{
	struct channels_thread *t = arg;

	for (u32 i = t->hub->nr_rounds; i > 0; i--)
		channels_once(t);
	for (u32 i = 0; i < t->nr_seats; i++)
		while (t->seats[i].nr_pins > 0)
			seated_unpin(&t->seats[i]);
}

/* Faults have ended: whatever has befallen it, each context gets hits again. */
static void channels_settles(struct channels_thread *t)
{
	for (u32 i = 0; i < t->nr_seats; i++)
		settle_file(t->seats[i].context, &t->hub->open[0]);
	if (t->has_own && t->nr_seats > 0)
		settle_file(t->seats[0].context, &t->own);
	while (t->nr_seats > 0)
		seated_closes(t);
	if (t->has_own)
		channels_own(t);
}

/* ---- programs ---- */

static void hub_threads(struct hub *hub)
{
	struct channels_thread threads[MOST_THREADS];
	u32 nr = 2 + machine_draw(MOST_THREADS - 1);

	for (u32 i = 0; i < nr; i++) {
		memset(&threads[i], 0, sizeof(threads[i]));
		threads[i].hub = hub;
		threads[i].task = task_start(process_now(), "asks", channels_run, &threads[i]);
	}
	for (u32 i = 0; i < nr; i++)
		while (threads[i].task->state != TASK_OVER)
			task_wait(&threads[i].task->over, NS_NEVER);
	settle_here();
	for (u32 i = 0; i < nr; i++)
		channels_settles(&threads[i]);
}

static void hub_settles(struct hub *hub)
{
	struct lodic_context *context;

	if (world_context_open(hub->lodic, &context) != 0)
		machine_fail("nothing fails any more, and there is no context");
	for (u32 i = 0; i < hub->nr_open; i++)
		settle_file(context, &hub->open[i]);
	world_context_close(context);
}

static void hub_run(void *arg)
{
	struct settle_has before = settle_look(process_now());
	struct hub hub = { .nr_rounds = (u32)(uintptr_t)arg };

	if (world_attach(&hub.lodic) == 0) {
		for (u32 i = 0; i < WORLD_FILES; i++)
			hub.nr_open += world_open(hub.lodic, world_paths[i],
			                          &hub.open[hub.nr_open]);
		if (hub.nr_open > 0)
			hub_threads(&hub);
		else
			settle_here();
		hub_settles(&hub);
		for (u32 i = 0; i < hub.nr_open; i++)
			world_close(&hub.open[i]);
		lodic_detach(hub.lodic);
	}
	settle_given_back_but(&before, *world_closed());
	process_exit(0);
}

/* ---- what befalls services ---- */

static void disturber_once(void)
{
	struct process *service = world_youngest_service();
	u64 ns = LOSES_NS + machine_draw(2000) * NS_PER_MS;
	u32 what = channels_kind == CHANNELS_STARTS ? 0 : machine_draw(8);

	switch (what) {
	case 0:
		if (service)
			process_kill(service);
		break;
	case 1:
		if (service)
			process_signal(service, SIGNAL_END);
		break;
	case 2:
	case 3: world_service(true); break;
	default:
		if (service)
			process_stop_for(service, ns);
		break;
	}
}

static void disturber_run(void *arg)
{
	for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
		disturber_once();
		task_wait(NULL, machine.now_ns + machine_draw(6000) * NS_PER_MS);
	}
}

/* One or two calls fail alone: a channel is made anew in each of its ways. */
static void channels_fail(void)
{
	u32 which = machine_draw(NR_CHANNEL_CALLS), also = machine_draw(2 * NR_CHANNEL_CALLS);

	machine.fault_call = channel_calls[which];
	machine.fault_which = CALL_MOST_ERRNOS;
	if (also < NR_CHANNEL_CALLS)
		machine.fault_also = channel_calls[also];
	machine.rate[FAULT_ERRNO] = 4u << machine_draw(6);
}

static int channels_configure(struct service_options *options, bool started,
                              const char **ret_why)
{
	(void)options;
	(void)ret_why;
	if (started)
		task_wait(NULL, machine.now_ns + START_NS);
	return 0;
}

void scenario_channels(void)
{
	channels_kind = machine_draw(NR_KINDS);
	if (channels_kind != CHANNELS_ANY)
		world_no_faults();
	if (channels_kind == CHANNELS_STARTS)
		world.configure = channels_configure;
	if (channels_kind == CHANNELS_FAIL)
		channels_fail();
	for (u32 i = 1 + machine_draw(2); i > 0; i--) {
		u32 nr_rounds = 10 + machine_draw(60);
		struct process *p = process_start("hub", WORLD_USER, hub_run,
		                                  (void *)(uintptr_t)nr_rounds);

		p->mortal = true;
		settle_expect(p);
	}
	if (machine_draw(2))
		world_writer(1 + machine_draw(6));
	settle_expect(process_start("disturber", WORLD_USER, disturber_run,
	                            (void *)(uintptr_t)(1 + machine_draw(8))));
}

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Programs of the service's own user that send rubbish by hand, beside honest readers. One writes
 * it into the memory that it shares with the service. One is a successor that says nothing more,
 * or asks for what there is not. One changes requests on their way. The honest ones are served.
 */
#include <string.h>

#include "check/whole/asker.h"
#include "check/whole/fake.h"
#include "check/whole/scenarios.h"
#include "check/whole/settle.h"
#include "check/whole/world_files.h"
#include "core/cache/arena.h"
#include "core/pte.h"
#include "lib/look.h"
#include "lib/port.h"
#include "lib/port/listen.h"
#include "lib/service/service.h"

#define NS_PER_MS ((u64)1000000)
#define LOCK_PATH WORLD_SOCKET ".lock"
#define ANSWER_MS 3000
#define SILENT_MS ((u64)31 * 1000) /* longer than SERVICE_SUCCESSOR_MS */
#define STAYS_MS ((u64)200 * 1000) /* longer than the auditor waits for a file */
#define PAGE_BYTES 4096u
#define GROUP_BYTES ((u64)256 << 10)
#define MOST_RESIZE ((u64)1 << 20)

static struct {
	bool for_group;
} rubbish;

static u64 rubbish_word(void)
{
	u64 high = machine_draw(UINT32_MAX), low = machine_draw(UINT32_MAX);

	switch (machine_draw(4)) {
	case 0: return low % 64;
	case 1: return ~(u64)0 - low % 8;
	case 2: return (u64)1 << low % 64;
	default: return high << 32 | low;
	}
}

/* A request that is answered, and its answer, or no answer. */
static void rubbish_ask(struct asker *a, u32 op, u64 arg, int fd, struct asker_answer *ret)
{
	const struct wire_request request = { .version = WIRE_VERSION, .op = op, .a = arg };
	int err = asker_send(a, &request, sizeof(request), &fd, fd >= 0);

	*ret = (struct asker_answer){ .error = err };
	if (!err)
		asker_receive(a, ret, ANSWER_MS);
}

/* ---- in shared memory ---- */

struct liar {
	struct asker asker;
	int wake;
	void *context, *control, *shared; /* NULL: not there */
	u64 context_bytes, control_bytes, data_bytes, shared_bytes;
	u32 id; /* of a file that it has open; 0: none */
	bool may_pin;
};

static u64 page_align(u64 bytes)
{
	return (bytes + PAGE_BYTES - 1) & ~(u64)(PAGE_BYTES - 1);
}

static void *liar_maps(int fd, u64 bytes, int protection)
{
	void *at;

	return port_map(NULL, bytes, protection, PORT_SHARED, fd, 0, &at) == 0 ? at : NULL;
}

static bool liar_attaches(struct liar *l)
{
	struct asker_answer answer;
	int fd, tries = 64;

	*l = (struct liar){ .wake = -1, .may_pin = machine_draw(2) };
	while (asker_connect(&l->asker, WORLD_SOCKET, false) != 0) {
		if (--tries == 0)
			return false;
		port_sleep(50 * NS_PER_MS); /* others start the service */
	}
	rubbish_ask(&l->asker, WIRE_HELLO, 0, -1, &answer);
	if (answer.error == 0 && answer.nr_fds == 4) {
		l->control_bytes = answer.page.reply.hello.control_bytes;
		l->data_bytes = answer.page.reply.hello.data_bytes;
		l->shared_bytes = answer.page.reply.hello.shared_bytes;
		l->control = liar_maps(answer.fds[0], l->control_bytes, PORT_READ);
		l->shared = liar_maps(answer.fds[3], l->shared_bytes, PORT_READ | PORT_WRITE);
		l->wake = port_dup(answer.fds[2]);
	}
	asker_drop(&answer);
	world_context_by_hand();
	rubbish_ask(&l->asker, WIRE_CONTEXT_OPEN, !l->may_pin, -1, &answer);
	if (answer.error == 0 && answer.nr_fds == 1) {
		l->context_bytes = page_align(answer.page.reply.context.bytes);
		l->context = liar_maps(answer.fds[0], l->context_bytes, PORT_READ | PORT_WRITE);
	}
	asker_drop(&answer);
	fd = port_open(world_paths[machine_draw(WORLD_FILES)]);
	if (fd < 0)
		return true;
	rubbish_ask(&l->asker, WIRE_FILE_OPEN, 0, fd, &answer);
	port_shut(fd);
	if (answer.error == 0 && !l->asker.owes)
		l->id = (u32)answer.page.reply.file.id;
	asker_drop(&answer);
	return true;
}

static void liar_leaves(struct liar *l)
{
	if (l->shared)
		port_unmap(l->shared, l->shared_bytes);
	if (l->control)
		port_unmap(l->control, l->control_bytes);
	if (l->context)
		port_unmap(l->context, l->context_bytes);
	if (l->wake >= 0)
		port_close(l->wake);
	asker_close(&l->asker);
}

/* Counts block in frame as a reader does, where the set of the block has room. */
static void liar_pins_block(const struct arena *a, u64 *entries, u32 frame, u64 block)
{
	u64 hash = block_hash(block);
	u64 *set = entries + ((hash >> 32) * a->nr_entries >> 32) / CONTEXT_WAYS * CONTEXT_WAYS;

	for (u32 i = 0; i < CONTEXT_WAYS; i++)
		if (pte_count(set[i]) == 0) {
			set[i] = (pte_make(frame) | (hash & PTE_TAG_MASK)) + PTE_COUNT_ONE;
			return;
		}
}

static void liar_pins_all(const struct arena *a, u64 *entries)
{
	for (u32 frame = FRAME_FIRST; frame < a->nr_frames; frame++) {
		u64 block = host_load_relaxed(&a->frames[frame].block);

		if (block != BLOCK_NONE)
			liar_pins_block(a, entries, frame, block);
	}
}

/* As if each frame was pinned, under whichever scheme. A context that may not pin keeps nothing by
 * that (K4). In a group one that may keeps as many as its table has entries. Elsewhere a program
 * may end the service just as well. */
static void liar_pins(struct liar *l)
{
	struct context_memory *m = l->context;
	u64 *end = (u64 *)((u8 *)l->context + l->context_bytes);
	struct context_table t;
	struct arena a;

	m->nr_pinned = ~(u64)0;
	if (l->may_pin && !rubbish.for_group)
		return;
	arena_context_table(&t, m);
	for (u64 *at = t.entries; at < end; at++)
		*at = (u64)(at - t.entries) % 65 + 1;
	if (!l->control || !arena_open(&a, l->control, l->control_bytes, NULL, l->data_bytes,
	                               l->shared))
		return;
	if (a.scheme != ARENA_SCANNED || a.nr_entries > (u64)(end - t.entries))
		return;
	memset(t.entries, 0, a.nr_entries * sizeof(u64));
	liar_pins_all(&a, t.entries);
}

static void liar_lies(struct liar *l)
{
	struct context_memory *m = l->context;
	u8 *shared = l->shared;
	u32 at = machine_draw(1024);
	u64 word = rubbish_word();

	switch (machine_draw(7)) {
	case 0: m->ring.head = word; break;
	case 1: m->ring.head = m->ring.tail + machine_draw(2 * HINT_MAX); break;
	case 2: m->ring.slots[at % HINT_MAX][at & 1] = word; break;
	case 3: m->kept.version = word; break;
	case 5: /* a hint that may be true, or of a file that another one has */
		m->ring.slots[m->ring.head % HINT_MAX][0] = block_id(l->id + at % 3, at / 4);
		m->ring.slots[m->ring.head % HINT_MAX][1] = word;
		m->ring.head++;
		break;
	case 4: m->kept.ranges[at % HINT_KEPT][at & 1] = word; break;
	default: m->counters[at % 7] = word; break;
	}
	for (u32 i = 0; shared && i < 16; i++) {
		at = machine_draw((u32)l->shared_bytes);
		shared[at] = (u8)machine_draw(4);
	}
	if (l->wake >= 0 && machine_draw(2))
		port_event_tell(l->wake);
}

/* What the cache has must go, but for what is pinned. */
static void liar_drops(void)
{
	struct look_dropped dropped = { 0 };
	struct look *look;
	int pid;

	if (look_open(WORLD_SOCKET, &look, &pid) != 0)
		return;
	look_drop(look, 0, LOOK_ALL, &dropped);
	look_close(look);
}

static void liar_run(void *arg)
{
	struct settle_has before = settle_look(process_now());
	struct liar l;

	if (liar_attaches(&l)) {
		for (u32 i = (u32)(uintptr_t)arg; i > 0 && l.context; i--) {
			liar_lies(&l);
			if (machine_draw(8) == 0)
				port_sleep(machine_draw(200) * NS_PER_MS);
		}
		settle_here();
		if (l.context)
			liar_pins(&l);
		liar_drops();
		port_sleep(STAYS_MS * NS_PER_MS);
		liar_leaves(&l);
	}
	settle_given_back(&before);
}

/* ---- a successor ---- */

/* Asks to be one, as it should. What it gets is for the channel. false: there is no service, or it
 * says no. */
static bool heir_announces(struct asker *channel, struct asker_answer *ret)
{
	int lock = port_open_to_write(LOCK_PATH);
	bool good = false;

	ret->error = -ENOENT;
	ret->nr_fds = 0;
	if (lock >= 0 && asker_connect(channel, WORLD_SOCKET, false) == 0) {
		rubbish_ask(channel, WIRE_SUCCEED, 0, lock, ret);
		good = ret->error == 0 && ret->nr_fds == 1;
		asker_close(channel);
		channel->owes = false;
		if (good)
			channel->socket = ret->fds[--ret->nr_fds];
		asker_drop(ret);
	}
	if (lock >= 0)
		port_shut(lock);
	return good;
}

static void heir_asks(struct asker *channel)
{
	static const u32 ops[] = { WIRE_HAND_ARENA, WIRE_HAND_FILE, WIRE_HAND_FRAMES,
		                   WIRE_HAND_STAY,  WIRE_HAND_OVER };
	bool known = machine_draw(2);
	u32 op = known ? ops[machine_draw(5)] : WIRE_NR_OPS + machine_draw(16);
	struct asker_answer answer;

	rubbish_ask(channel, op, machine_draw(2) ? machine_draw(16) : rubbish_word(), -1, &answer);
	machine_note("the heir's request %u: %d", op, answer.error);
	/* An answer may be to what was asked before. */
	if (!known && answer.error == 0 && !channel->owes)
		machine_fail("the service carries out request %u, which there is not", op);
	asker_drop(&answer);
}

/* One after it must get the place, if it has been silent for long. */
static void heir_is_late(struct asker *channel)
{
	struct asker next;
	struct asker_answer answer;

	port_sleep(SILENT_MS * NS_PER_MS);
	if (heir_announces(&next, &answer)) {
		asker_close(channel);
		*channel = next;
		return;
	}
	/* A service that was late has just heard of it. */
	if (answer.error == -EBUSY && machine.nr_faults[FAULT_ERRNO] == 0 &&
	    machine.nr_faults[FAULT_DELAY] + machine.nr_faults[FAULT_STOP] == 0)
		machine_fail("a successor that says nothing keeps its place");
}

static void heir_run(void *arg)
{
	struct settle_has before = settle_look(process_now());
	struct asker channel;
	struct asker_answer answer;

	for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
		port_sleep(machine_draw(500) * NS_PER_MS);
		if (!heir_announces(&channel, &answer))
			continue;
		for (u32 k = machine_draw(12); k > 0; k--)
			heir_asks(&channel);
		if (machine_draw(4) == 0)
			heir_is_late(&channel);
		asker_close(&channel);
	}
	settle_given_back(&before);
}

/* ---- requests that change on their way ---- */

static void mangler_sends(struct asker *a)
{
	struct wire_request request = { .version = WIRE_VERSION,
		                        .op = machine_draw(WIRE_NR_OPS + 2) };
	u32 bytes = machine_draw(4) ? (u32)sizeof(request) : machine_draw(sizeof(request) + 1);
	u32 nr_fds = machine_draw(3) ? 0 : 1 + machine_draw(WIRE_MAX_FDS);
	bool old = machine_draw(8) == 0;
	struct asker_answer answer;
	int fds[WIRE_MAX_FDS];

	request.a = rubbish_word();
	request.b = rubbish_word();
	request.c = rubbish_word();
	request.cpu = rubbish_word();
	if (request.op == WIRE_STOP || request.op == WIRE_HANDED)
		request.op = WIRE_STAT; /* its own user may end it */
	if (request.op == WIRE_RESIZE) { /* below a huge page, which the machine does not have */
		request.a %= MOST_RESIZE;
		request.b %= MOST_RESIZE;
	}
	request.version -= old;
	for (u32 i = 0; i < nr_fds; i++)
		fds[i] = machine_draw(2) ? a->socket : 0;
	for (u32 i = 0; i < nr_fds; i++)
		if (!fd_get(fds[i]))
			nr_fds = 0;
	if (asker_send(a, &request, bytes, fds, nr_fds) != 0)
		return;
	asker_receive(a, &answer, machine_draw(4) ? ANSWER_MS : 0);
	if (old && answer.error == 0 && !a->owes)
		machine_fail("a program of another version is answered");
	asker_drop(&answer);
}

static void mangler_run(void *arg)
{
	struct settle_has before = settle_look(process_now());
	struct asker_answer answer;
	struct asker a;

	for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
		if (asker_connect(&a, WORLD_SOCKET, false) != 0) {
			port_sleep(machine_draw(100) * NS_PER_MS);
			continue;
		}
		if (machine_draw(2)) {
			rubbish_ask(&a, WIRE_HELLO, 0, -1, &answer);
			asker_drop(&answer);
		}
		for (u32 k = machine_draw(20); k > 0; k--)
			mangler_sends(&a);
		asker_close(&a);
	}
	settle_given_back(&before);
}

/* ---- the scenario ---- */

/* Where all count in one place, a lie there keeps a block for good. */
static void rubbish_adjust(struct service_options *options)
{
	if (options->tables.scheme == LODIC_ATOMIC || options->tables.scheme == LODIC_FROZEN)
		options->tables.scheme = LODIC_HAZARD;
	if (!rubbish.for_group)
		return;
	/* Room for one context of each user that pins. */
	options->sizes.cache_bytes = GROUP_BYTES;
	options->tables.quota = 1 + machine_draw(8);
	options->tables.nr_entries = 0;
	options->keeping.nr_files = 64;
	options->sharing.for_group = true;
	options->sharing.group = ASKER_GROUP;
	options->sizes.hold_bytes = 0;
}

static void rubbish_start(const char *name, void (*run)(void *arg), u32 nr_rounds)
{
	settle_expect(process_start(name, WORLD_USER, run, (void *)(uintptr_t)nr_rounds));
}

void scenario_rubbish(void)
{
	world.adjust = rubbish_adjust;
	rubbish.for_group = machine_draw(2);
	if (rubbish.for_group)
		program_make_folder("/", 0, 0755); /* the files' */
	for (u32 i = 1 + machine_draw(2); i > 0; i--)
		world_reader(50 + machine_draw(100));
	if (machine_draw(2))
		world_writer(1 + machine_draw(5));
	for (u32 i = machine_draw(3); i > 0; i--)
		rubbish_start("liar", liar_run, 10 + machine_draw(200));
	if (machine_draw(2))
		rubbish_start("heir", heir_run, 1 + machine_draw(10));
	if (machine_draw(2))
		rubbish_start("mangler", mangler_run, 5 + machine_draw(30));
	if (machine_draw(2))
		fake_start();
}

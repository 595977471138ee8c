/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Records of a running cache: sim/tier/record.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/kloc/kloc.h"
#include "host/sim/sim.h"
#include "sim/tier/engine.h"
#include "sim/tier/record.h"

#define MOST_CPUS 4096u /* as lib/service/memory/nodes.h has it */
#define LINE_BYTES (256u + MOST_CPUS)
#define LIST_LENGTH 32u /* as lib/service/tier/policy.c has it */
#define FRAME_BYTES 4096u
#define MOST_FRAMES ((u64)1 << 32)
#define MOST_OBJECTS 0x80010000u /* of a cache of 8 TiB, and a few that move */

enum call {
	CALL_BEGIN,
	CALL_MAP,
	CALL_OPEN,
	CALL_CLOSE,
	CALL_UNLINK,
	CALL_ADD,
	CALL_TOUCH,
	CALL_REMOVE,
	CALL_TICK,
	CALL_NEXT,
	CALL_MOVED,
	NR_CALLS,
	CALL_DECISION = NR_CALLS /* what followed from calls */
};

/* Each call's word, and how many numbers follow. */
static const struct {
	const char *word;
	u32 nr;
} calls[NR_CALLS] = {
	[CALL_BEGIN] = { "begin", 5 },   [CALL_MAP] = { "map", 3 },
	[CALL_OPEN] = { "open", 2 },     [CALL_CLOSE] = { "close", 2 },
	[CALL_UNLINK] = { "unlink", 2 }, [CALL_ADD] = { "add", 4 },
	[CALL_TOUCH] = { "touch", 2 },   [CALL_REMOVE] = { "remove", 1 },
	[CALL_TICK] = { "tick", 0 },     [CALL_NEXT] = { "next", 0 },
	[CALL_MOVED] = { "moved", 2 },
};

struct knode {
	u32 file; /* by the order of their beginnings, from 1; 0: there is none */
	u32 nr_opens;
};

struct object {
	u32 file;
	u32 index; /* its frame there */
	bool is_live;
	bool is_moving;
};

/* A record, and who is alive where it is being read. */
struct record {
	struct tier_source source;
	FILE *f;
	char *path;
	u64 line;
	char text[LINE_BYTES];
	enum call call;
	u64 args[5];
	char policy[32];
	u64 capacity[2];
	u8 cpu_tier[MOST_CPUS];
	u32 nr_cpus;
	u32 cpu; /* that the call is about */
	struct knode *knodes;
	struct object *objects;
	u32 nr_knodes, nr_objects, max_in_flight;
	u32 file; /* that the call is about; 0: none */
	u32 nr_files;
	/* For record_replay(): the same file, read for its decisions. */
	struct record *expected;
	struct kloc *kloc;
	struct record_result result;
	bool differs;
};

static int record_wrong(const struct record *r, const char *why)
{
	fprintf(stderr, "lodic-sim: %s: line %" PRIu64 ": %s\n", r->path, r->line, why);
	return -EINVAL;
}

/* A digit for each CPU: the tier that lies on its node. */
static int record_parse_cpus(struct record *r, const char *text)
{
	r->nr_cpus = text ? (u32)strspn(text, "01") : 0;
	if (r->nr_cpus == 0 || r->nr_cpus > MOST_CPUS || text[r->nr_cpus])
		return record_wrong(r, "the CPUs' tiers make no sense");
	for (u32 i = 0; i < r->nr_cpus; i++)
		r->cpu_tier[i] = text[i] == '1';
	return 1;
}

/* The call of a line, and its numbers. */
static int record_parse(struct record *r)
{
	char *text = r->text, *word;
	u32 i;

	if (*text >= '0' && *text <= '9') {
		r->call = CALL_DECISION;
		return 1;
	}
	word = strsep(&text, " ");
	for (i = 0; i < NR_CALLS && strcmp(word, calls[i].word) != 0; i++)
		;
	if (i == NR_CALLS)
		return record_wrong(r, "there is no such call");
	r->call = (enum call)i;
	if (i == CALL_BEGIN) {
		word = strsep(&text, " ");
		snprintf(r->policy, sizeof(r->policy), "%s", word ? word : "");
	}
	for (i = 0; i < calls[r->call].nr; i++) {
		char *end = text;

		errno = 0;
		r->args[i] = text ? strtoull(text, &end, 10) : 0;
		if (end == text || errno || (*end && *end != ' '))
			return record_wrong(r, "a number is missing");
		text = *end ? end + 1 : end;
	}
	return r->call == CALL_BEGIN ? record_parse_cpus(r, text) : 1;
}

/* Reads a line: 1, or 0 at the end. -EINVAL: it has said why. */
static int record_read(struct record *r)
{
	if (!fgets(r->text, sizeof(r->text), r->f))
		return ferror(r->f) ? record_wrong(r, "cannot be read") : 0;
	r->line++;
	if (!strchr(r->text, '\n'))
		return record_wrong(r, "cut off, or too long");
	r->text[strcspn(r->text, "\n")] = '\0';
	return record_parse(r);
}

/* Does the call name only what is there? And what is there after it? */
static int record_follow(struct record *r)
{
	static const char what[] = "it names what is not there";
	const u64 *a = r->args;
	bool of_knode =
		r->call == CALL_OPEN || r->call == CALL_CLOSE || r->call == CALL_UNLINK;
	bool of_object = r->call == CALL_TOUCH || r->call == CALL_REMOVE ||
	                 r->call == CALL_MOVED;

	r->cpu = of_knode || r->call == CALL_TOUCH ? (u32)a[1]
	         : r->call == CALL_ADD             ? (u32)a[3]
	                                           : 0;
	if (r->cpu >= r->nr_cpus)
		return record_wrong(r, what);
	if (of_knode && (a[0] >= r->nr_knodes || r->knodes[a[0]].file == 0))
		return record_wrong(r, what);
	if (of_object && (a[0] >= r->nr_objects ||
	                  !(r->call == CALL_MOVED ? r->objects[a[0]].is_moving
	                                          : r->objects[a[0]].is_live)))
		return record_wrong(r, what);
	r->file = of_knode ? r->knodes[a[0]].file : 0;
	switch (r->call) {
	case CALL_BEGIN: return record_wrong(r, "a second beginning");
	case CALL_MAP:
		if (a[0] >= r->nr_knodes || a[1] == 0 ||
		    a[2] > (KLOC_MAP_FAST | KLOC_MAP_SLOW))
			return record_wrong(r, what);
		r->knodes[a[0]] = (struct knode){ ++r->nr_files, 0 };
		return 1;
	case CALL_OPEN: r->knodes[a[0]].nr_opens++; return 1;
	case CALL_CLOSE:
		if (r->knodes[a[0]].nr_opens == 0)
			return record_wrong(r, "it is not open");
		r->knodes[a[0]].nr_opens--;
		return 1;
	case CALL_UNLINK:
		if (r->knodes[a[0]].nr_opens > 0)
			return record_wrong(r, "it is still open");
		r->knodes[a[0]].file = 0;
		return 1;
	case CALL_ADD:
		if (a[0] >= r->nr_objects || r->objects[a[0]].is_live ||
		    a[2] / FRAME_BYTES >= MOST_FRAMES ||
		    (a[1] != KLOC_NONE &&
		     (a[1] >= r->nr_knodes || r->knodes[a[1]].file == 0)))
			return record_wrong(r, what);
		r->objects[a[0]] = (struct object){
			.file = a[1] == KLOC_NONE ? 0 : r->knodes[a[1]].file,
			.index = (u32)(a[2] / FRAME_BYTES),
			.is_live = true
		};
		r->file = r->objects[a[0]].file;
		return 1;
	case CALL_TOUCH: r->file = r->objects[a[0]].file; return 1;
	case CALL_REMOVE: r->objects[a[0]].is_live = false; return 1;
	case CALL_MOVED: r->objects[a[0]].is_moving = false; return 1;
	default: return 1;
	}
}

static void record_close(struct tier_source *source)
{
	struct record *r = (struct record *)source;

	if (r->expected)
		record_close(&r->expected->source);
	if (r->kloc)
		kloc_fini(r->kloc);
	if (r->f)
		fclose(r->f);
	free(r->knodes);
	free(r->objects);
	free(r->path);
	free(r);
}

static int record_begin(struct record *r)
{
	int got = record_read(r);

	if (got < 0)
		return got;
	if (got == 0 || r->call != CALL_BEGIN)
		return record_wrong(r, "a record begins with 'begin'");
	if (r->args[2] == 0 || r->args[2] > MOST_OBJECTS || r->args[3] == 0 ||
	    r->args[3] > MOST_OBJECTS || r->args[4] == 0 || r->args[4] > MOST_OBJECTS)
		return record_wrong(r, "the sizes make no sense");
	r->capacity[0] = r->args[0];
	r->capacity[1] = r->args[1];
	r->nr_objects = (u32)r->args[2];
	r->nr_knodes = (u32)r->args[3];
	r->max_in_flight = (u32)r->args[4];
	r->knodes = calloc(r->nr_knodes, sizeof(*r->knodes));
	r->objects = calloc(r->nr_objects, sizeof(*r->objects));
	if (r->knodes && r->objects)
		return 0;
	record_wrong(r, "no memory for a cache of that size");
	return -ENOMEM;
}

static int record_make(const char *path, struct record **ret_record)
{
	struct record *r = calloc(1, sizeof(*r));
	int err = -ENOMEM;

	if (!r)
		return err;
	r->path = strdup(path);
	r->f = fopen(path, "r");
	if (!r->f) {
		err = -errno;
		fprintf(stderr, "lodic-sim: %s: %s\n", path, strerror(errno));
	} else if (r->path) {
		err = record_begin(r);
	}
	if (err) {
		record_close(&r->source);
		return err;
	}
	*ret_record = r;
	return 0;
}

/* ---- a trace ---- */

static int record_next(struct tier_source *source, struct tier_event *ret_event)
{
	static const u8 ops[NR_CALLS] = { [CALL_OPEN] = TIER_OPEN,
		                          [CALL_CLOSE] = TIER_CLOSE,
		                          [CALL_UNLINK] = TIER_UNLINK,
		                          [CALL_ADD] = TIER_READ,
		                          [CALL_TOUCH] = TIER_READ };
	struct record *r = (struct record *)source;
	int got;

	while ((got = record_read(r)) > 0) {
		if (r->call == CALL_DECISION || r->call == CALL_MOVED)
			continue; /* what its own policy did */
		got = record_follow(r);
		if (got < 0)
			return got;
		/* A removal was this cache's own need of room. */
		if (r->file == 0)
			continue;
		*ret_event = (struct tier_event){ .op = ops[r->call],
			                          .kind = KLOC_FRAME,
			                          .cpu = (u16)(r->cpu % TIER_MAX_CPUS),
			                          .file = r->file };
		if (ret_event->op == TIER_READ) {
			ret_event->index = r->objects[r->args[0]].index;
			ret_event->bytes = FRAME_BYTES;
		}
		return 1;
	}
	return got;
}

int record_open(const char *path, struct tier_source **ret_source)
{
	struct record *r;
	int err = record_make(path, &r);

	if (err)
		return err;
	r->source = (struct tier_source){ .name = r->path,
		                          .nr_cpus = r->nr_cpus < TIER_MAX_CPUS
		                                             ? r->nr_cpus
		                                             : TIER_MAX_CPUS,
		                          .nr_cpus_busy = 1, /* nobody knows */
		                          .next = record_next,
		                          .close = record_close };
	*ret_source = &r->source;
	return 0;
}

/* ---- the same calls once more ---- */

/* The decisions of both must come in the same order. */
static void replay_log(void *arg, const struct kloc_decision *d)
{
	struct record *r = arg, *e = r->expected;
	char text[LINE_BYTES];
	int got;

	r->result.nr_decisions++;
	if (r->differs)
		return;
	do
		got = record_read(e);
	while (got > 0 && e->call != CALL_DECISION);
	snprintf(text, sizeof(text),
	         "%" PRIu64 " %s %s inode=%" PRIu64 " key=%" PRIu64
	         " kind=%s from=%u to=%u",
	         d->number, kloc_what_name((enum kloc_what)d->what),
	         kloc_why_name((enum kloc_why)d->why), d->inode, d->key,
	         kloc_kind_name((enum kloc_kind)d->kind), d->from, d->to);
	r->differs = got <= 0 || strcmp(text, e->text) != 0;
	if (r->differs)
		fprintf(stderr,
		        "lodic-sim: %s: line %" PRIu64
		        " has\n    %s\nand the same calls give\n    %s\n",
		        e->path, e->line, got > 0 ? e->text : "no decision", text);
}

static int replay_begin(struct record *r)
{
	struct kloc_shape shape = { .capacity = { r->capacity[0], r->capacity[1] },
		                    .nr_tiers = 2,
		                    .nr_objects = r->nr_objects,
		                    .nr_knodes = r->nr_knodes,
		                    .nr_cpus = r->nr_cpus,
		                    .cpu_tier = r->cpu_tier,
		                    .list_length = LIST_LENGTH,
		                    .policy = kloc_policy_named(r->policy),
		                    .ops = { .arg = r, .log = replay_log } };

	if (shape.policy == KLOC_NR_POLICIES)
		return record_wrong(r, "there is no such policy");
	kloc_parameters_default(shape.policy, &shape.parameters);
	shape.parameters.max_in_flight = r->max_in_flight;
	shape.parameters.knode_tier = KLOC_NO_TIER;
	/* core/ takes its memory from the simulated machine's. */
	if (!engine_memory(r->nr_objects, r->nr_knodes))
		return record_wrong(r, "there is no address space for these sizes");
	sim_begin(&(struct sim_machine){ .nr_sockets = 1, .cpus_per_socket = 1 }, 0);
	if (kloc_init(&shape, &r->kloc) != 0)
		return record_wrong(r, "these sizes cannot be used");
	return 0;
}

static int replay_add(struct record *r)
{
	struct kloc_new n = { .key = r->args[2],
		              .knode = (u32)r->args[1],
		              .kind = KLOC_FRAME,
		              .bytes = FRAME_BYTES,
		              .cpu = r->cpu };
	u32 object, tier;

	if (kloc_add(r->kloc, &n, &object, &tier) != 0 || object != r->args[0])
		return record_wrong(r, "the same calls give another object");
	return 1;
}

static int replay_map(struct record *r)
{
	u32 knode;

	if (kloc_map(r->kloc, r->args[1], (u32)r->args[2], &knode) != 0 ||
	    knode != r->args[0])
		return record_wrong(r, "the same calls give another knode");
	return 1;
}

static int replay_call(struct record *r)
{
	u32 a = (u32)r->args[0];
	struct kloc_move m;

	switch (r->call) {
	case CALL_MAP: return replay_map(r);
	case CALL_OPEN: kloc_open(r->kloc, a, r->cpu); return 1;
	case CALL_CLOSE: kloc_close(r->kloc, a, r->cpu); return 1;
	case CALL_UNLINK: kloc_unlink(r->kloc, a, r->cpu); return 1;
	case CALL_ADD: return replay_add(r);
	case CALL_TOUCH: kloc_touch(r->kloc, a, r->cpu); return 1;
	case CALL_REMOVE: kloc_remove(r->kloc, a); return 1;
	case CALL_TICK: kloc_tick(r->kloc); return 1;
	case CALL_NEXT:
		if (kloc_next(r->kloc, &m))
			r->objects[m.object].is_moving = true;
		return 1;
	case CALL_MOVED:
		if (r->args[1] > KLOC_NO_ROOM)
			return record_wrong(r, "there is no such result");
		kloc_moved(r->kloc, a, (enum kloc_result)r->args[1]);
		return 1;
	default: return 1;
	}
}

static int replay_all(struct record *r)
{
	int got;

	while ((got = record_read(r)) > 0 && !r->differs) {
		if (r->call == CALL_DECISION)
			continue;
		r->result.nr_calls++;
		got = record_follow(r);
		if (got > 0)
			got = replay_call(r);
		if (got < 0)
			return got;
	}
	if (got < 0 || r->differs)
		return -EINVAL;
	while ((got = record_read(r->expected)) > 0)
		if (r->expected->call == CALL_DECISION)
			return record_wrong(r->expected,
			                    "the same calls do not give this decision");
	return got;
}

int record_replay(const char *path, struct record_result *ret_result)
{
	struct record *r;
	int err = record_make(path, &r);

	if (err)
		return err;
	err = record_make(path, &r->expected);
	if (!err)
		err = replay_begin(r);
	if (!err)
		err = replay_all(r);
	memcpy(r->result.policy, r->policy, sizeof(r->policy));
	*ret_result = r->result;
	record_close(&r->source);
	return err;
}

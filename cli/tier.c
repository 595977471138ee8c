/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* `lodic tier`: what lies in fast and in slow memory, and how files come from one to the other. */
#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/command.h"
#include "cli/text.h"
#include "cli/tier_kernel.h"
#include "cli/where.h"
#include "lodic/lodic.h"

#define NS_PER_S UINT64_C(1000000000)
#define SHORT_ROWS 20u
#define PATH_AFTER 32u /* columns in front of a path */
#define SETTLE_POLL_NS 2000000
#define SCREEN_HOME "\033[H\033[2J"

struct tier {
	struct where where;
	bool json, watch, move, wait, kernel;
	enum look_tier_kind to;
	char **paths; /* to move, or of the kernel's knodes; NULL-ended */
	struct look_tier tiers[LOOK_NR_TIERS];
	size_t nr_tiers;
	struct look_file **files;
	size_t nr, room;
};

static const char doc[] =
	"Print how much of the running cache lies in fast memory and how much in slow, which "
	"blocks have moved, and where each file is. With --to, move the cached blocks of files; "
	"their later blocks and holds go there, too."
	"\v"
	"Examples:\n"
	"  lodic tier\n"
	"  lodic tier --to fast /srv/db/*.sst\n"
	"  lodic tier --json | jq '.tiers[] | {tier, free}'\n"
	"  sudo lodic tier --kernel /srv/db/*.sst\n"
	"\n"
	"A service has two tiers if it was started with --fast-memory. A block that a program "
	"has pinned stays where it is, and a hold until no program has it.\n";

enum { KEY_TO = 0x1000, KEY_WAIT, KEY_KERNEL };

static const struct argp_option option_list[] = {
	{ "json", 'j', NULL, 0, "Print JSON, one object, with every file", 0 },
	{ "watch", 'w', NULL, 0, "Print it anew every second, until Ctrl-C", 0 },
	{ "to", KEY_TO, "fast|slow", 0, "Move these files there", 0 },
	{ "wait", KEY_WAIT, NULL, 0, "Wait until the service has nothing more to move",
	  0 },
	{ "kernel", KEY_KERNEL, NULL, 0,
	  "Of a Linux with KLOC: its settings, counters and knodes, of FILEs or of all; "
	  "for root",
	  0 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct tier *t = state->input;

	switch (key) {
	case ARGP_KEY_INIT: state->child_inputs[0] = &t->where; return 0;
	case 'j': t->json = true; return 0;
	case 'w': t->watch = true; return 0;
	case KEY_WAIT: t->wait = true; return 0;
	case KEY_KERNEL: t->kernel = true; return 0;
	case KEY_TO:
		t->move = true;
		t->to = strcmp(arg, "slow") == 0 ? LOOK_TIER_SLOW : LOOK_TIER_FAST;
		if (t->to == LOOK_TIER_FAST && strcmp(arg, "fast") != 0)
			argp_error(state, "'%s' is neither fast nor slow", arg);
		return 0;
	case ARGP_KEY_ARGS: t->paths = state->argv + state->next; return 0;
	case ARGP_KEY_END:
		if (t->kernel && (t->move || t->watch || t->wait))
			argp_error(state, "--kernel goes with --json and files alone");
		if (!t->kernel && t->move != (t->paths != NULL))
			argp_error(state, t->move ? "name the files to move"
			                          : "say --to fast or --to slow");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const char *name_of(uint32_t tier)
{
	return tier == LOOK_TIER_FAST ? "fast" : "slow";
}

static int keep_tier(void *ctx, const void *record)
{
	struct tier *t = ctx;

	if (t->nr_tiers < LOOK_NR_TIERS)
		t->tiers[t->nr_tiers++] = *(const struct look_tier *)record;
	return cli_stopped ? -EINTR : 0;
}

static int keep_file(void *ctx, const void *record)
{
	const struct look_file *r = record;
	struct tier *t = ctx;

	if (r->state != LOOK_HELD)
		return cli_stopped ? -EINTR : 0;
	if (t->nr == t->room) {
		size_t room = t->room ? t->room * 2 : 64;
		struct look_file **more = realloc(t->files, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		t->files = more;
		t->room = room;
	}
	t->files[t->nr] = malloc(r->bytes);
	if (!t->files[t->nr])
		return -ENOMEM;
	memcpy(t->files[t->nr++], r, r->bytes);
	return cli_stopped ? -EINTR : 0;
}

static void forget(struct tier *t)
{
	while (t->nr > 0)
		free(t->files[--t->nr]);
	t->nr_tiers = 0;
}

static int compare_files(const void *a, const void *b)
{
	const struct look_file *x = *(struct look_file *const *)a;
	const struct look_file *y = *(struct look_file *const *)b;

	if (x->cached != y->cached)
		return x->cached < y->cached ? 1 : -1;
	return strcmp(x->path, y->path);
}

static int look(struct tier *t, struct look *l)
{
	int err;

	forget(t);
	err = look_list(l, LOOK_TIERS, keep_tier, t);
	if (!err)
		err = look_list(l, LOOK_FILES, keep_file, t);
	if (t->nr > 0)
		qsort(t->files, t->nr, sizeof(*t->files), compare_files);
	return err;
}

static const char *policy_of(const struct tier *t)
{
	return t->nr_tiers > 0 && *t->tiers[0].policy ? t->tiers[0].policy : "none";
}

/* Where new blocks go: by the file's tier, or as the policy sees its knode. */
static const char *new_of(const struct look_file *r)
{
	switch (r->knode) {
	case LOOK_KNODE_ACTIVE: return "active";
	case LOOK_KNODE_INACTIVE: return "inactive";
	default: return name_of(r->tier);
	}
}

static void print_tier(const struct look_tier *r)
{
	char node[16] = "-";

	if (r->node >= 0)
		snprintf(node, sizeof(node), "%d", r->node);
	printf("%-5s %5s %10s %10s %8s %8s %8s %8s\n", name_of(r->tier), node,
	       text_bytes(r->frames * LODIC_BLOCK_BYTES).s,
	       text_bytes(r->free_frames * LODIC_BLOCK_BYTES).s, text_count(r->moved).s,
	       text_count(r->refused).s, text_count(r->no_room).s,
	       text_count(r->missed).s);
}

/* Holds have memory of their own, beside the tiers' frames. */
static void print_holds(const struct tier *t)
{
	uint64_t any = 0;

	for (size_t i = 0; i < t->nr_tiers; i++)
		any |= t->tiers[i].holds | t->tiers[i].holds_came |
		       t->tiers[i].holds_refused;
	if (!any)
		return;
	printf("\n%-5s %5s %10s %10s %8s %8s\n", "HOLDS", "", "NUMBER", "SIZE", "CAME",
	       "REFUSED");
	for (size_t i = 0; i < t->nr_tiers; i++)
		printf("%-5s %5s %10s %10s %8s %8s\n", name_of(t->tiers[i].tier), "",
		       text_count(t->tiers[i].holds).s,
		       text_bytes(t->tiers[i].hold_bytes).s,
		       text_count(t->tiers[i].holds_came).s,
		       text_count(t->tiers[i].holds_refused).s);
}

static void print_table(const struct tier *t)
{
	size_t columns = text_columns();
	size_t end = t->nr > SHORT_ROWS ? SHORT_ROWS : t->nr;

	fputs("cache at ", stdout);
	text_print(t->where.socket, 0);
	fputs(t->nr_tiers > 1 ? ": two tiers, policy " : ": one tier", stdout);
	if (t->nr_tiers > 1)
		text_print(policy_of(t), 0);
	putchar('\n');
	printf("%-5s %5s %10s %10s %8s %8s %8s %8s\n", "TIER", "NODE", "SIZE", "FREE",
	       "CAME", "REFUSED", "NO-ROOM", "MISSED");
	for (size_t i = 0; i < t->nr_tiers; i++)
		print_tier(&t->tiers[i]);
	if (t->nr_tiers < LOOK_NR_TIERS)
		puts("all memory is alike; `lodic serve --fast-memory SIZE' makes two "
		     "tiers");
	print_holds(t);
	if (t->nr > 0)
		printf("\n%10s %10s  %-8s %s\n", "FAST", "SLOW", "NEW", "FILE");
	for (size_t i = 0; i < end; i++) {
		const struct look_file *r = t->files[i];

		printf("%10s %10s  %-8s ", text_bytes(r->fast * LODIC_BLOCK_BYTES).s,
		       text_bytes((r->cached - r->fast) * LODIC_BLOCK_BYTES).s,
		       new_of(r));
		text_print(r->path, columns > PATH_AFTER ? columns - PATH_AFTER : 0);
		putchar('\n');
	}
	if (end < t->nr)
		printf("and %zu more; --json prints them\n", t->nr - end);
}

static json_t *number(uint64_t n)
{
	return json_integer((json_int_t)n);
}

static json_t *json_of_tier(const struct look_tier *r)
{
	json_t *o = json_object();

	json_object_set_new(o, "tier", json_string(name_of(r->tier)));
	json_object_set_new(o, "node",
	                    r->node < 0 ? json_null() : json_integer(r->node));
	json_object_set_new(o, "frames", number(r->frames));
	json_object_set_new(o, "free", number(r->free_frames));
	json_object_set_new(o, "asked", number(r->asked));
	json_object_set_new(o, "missed", number(r->missed));
	json_object_set_new(o, "holds", number(r->holds));
	json_object_set_new(o, "hold_bytes", number(r->hold_bytes));
	return o;
}

static json_t *json_of_moves(const struct look_tier *r)
{
	json_t *o = json_object();

	json_object_set_new(o, "to", json_string(name_of(r->tier)));
	json_object_set_new(o, "begun", number(r->begun));
	json_object_set_new(o, "moved", number(r->moved));
	json_object_set_new(o, "refused", number(r->refused));
	json_object_set_new(o, "no_room", number(r->no_room));
	json_object_set_new(o, "holds_moved", number(r->holds_came));
	json_object_set_new(o, "holds_refused", number(r->holds_refused));
	return o;
}

static json_t *json_of_file(const struct look_file *r)
{
	json_t *o = json_object();

	json_object_set_new(o, "path", text_json(r->path));
	json_object_set_new(o, "dev", number(r->dev));
	json_object_set_new(o, "ino", number(r->ino));
	json_object_set_new(o, "opens", number(r->opens));
	json_object_set_new(o, "new", json_string(name_of(r->tier)));
	json_object_set_new(o, "fast", number(r->fast));
	json_object_set_new(o, "slow", number(r->cached - r->fast));
	return o;
}

static json_t *json_of_knode(const struct look_file *r)
{
	json_t *o = json_object();

	json_object_set_new(o, "path", text_json(r->path));
	json_object_set_new(o, "active", json_boolean(r->knode == LOOK_KNODE_ACTIVE));
	json_object_set_new(o, "opens", number(r->opens));
	json_object_set_new(o, "fast", number(r->fast));
	json_object_set_new(o, "slow", number(r->cached - r->fast));
	return o;
}

static void print_json(const struct tier *t)
{
	json_t *o = json_object(), *tiers = json_array(), *moves = json_array(),
	       *files = json_array(), *knodes = json_array();

	for (size_t i = 0; i < t->nr_tiers; i++) {
		json_array_append_new(tiers, json_of_tier(&t->tiers[i]));
		json_array_append_new(moves, json_of_moves(&t->tiers[i]));
	}
	for (size_t i = 0; i < t->nr; i++) {
		json_array_append_new(files, json_of_file(t->files[i]));
		if (t->files[i]->knode != LOOK_KNODE_NONE)
			json_array_append_new(knodes, json_of_knode(t->files[i]));
	}
	json_object_set_new(o, "socket", text_json(t->where.socket));
	json_object_set_new(o, "policy", text_json(policy_of(t)));
	json_object_set_new(o, "tiers", tiers);
	json_object_set_new(o, "moves", moves);
	json_object_set_new(o, "moving",
	                    json_boolean(t->nr_tiers > 0 && t->tiers[0].busy));
	json_object_set_new(o, "knodes", knodes);
	json_object_set_new(o, "files", files);
	json_dumpf(o, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(o);
}

static void print(const struct tier *t)
{
	if (t->json)
		print_json(t);
	else
		print_table(t);
	fflush(stdout);
}

static int watch(struct tier *t, struct look *l)
{
	const struct timespec second = { .tv_sec = 1 };
	int err = 0;

	while (!cli_stopped && !err) {
		err = look(t, l);
		if (err)
			break;
		if (!t->json && text_columns() > 0)
			fputs(SCREEN_HOME, stdout);
		print(t);
		nanosleep(&second, NULL);
	}
	return err;
}

static int settle(struct tier *t, struct look *l)
{
	const struct timespec pause = { .tv_nsec = SETTLE_POLL_NS };
	int err;

	for (;;) {
		t->nr_tiers = 0;
		err = look_list(l, LOOK_TIERS, keep_tier, t);
		if (err || t->nr_tiers == 0 || !t->tiers[0].busy || cli_stopped)
			return err;
		nanosleep(&pause, NULL);
	}
}

/* 0, or an error after which the look must be closed. */
static int move_one(struct tier *t, struct look *l, const char *path, int *status)
{
	struct stat st;
	int err;

	if (stat(path, &st) != 0) {
		cli_error("%s: %s", path, strerror(errno));
		*status = CLI_FAILED;
		return 0;
	}
	err = look_move(l, st.st_dev, st.st_ino, t->to);
	if (err == -EAGAIN) {
		err = settle(t, l);
		if (!err)
			err = look_move(l, st.st_dev, st.st_ino, t->to);
	}
	switch (err) {
	case -EAGAIN:
		cli_error("%s: too many files wait to be moved; try again", path);
		break;
	case -ENOENT:
		cli_error(
			"%s: the cache does not hold it; a program must open it first",
			path);
		break;
	case -EPERM:
		cli_error(
			"the service's policy moves blocks; `lodic serve --policy none' "
			"leaves it to you");
		break;
	case -ENOTSUP:
		cli_error("the service has one tier; start it with --fast-memory SIZE");
		break;
	default: return err;
	}
	*status = CLI_FAILED;
	return 0;
}

static int move(struct tier *t, struct look *l, int *status)
{
	int err = 0;

	for (char **path = t->paths; *path && !err && !cli_stopped; path++)
		err = move_one(t, l, *path, status);
	return err;
}

int command_tier(int argc, char **argv)
{
	static const struct argp_child children[] = { { &where_argp, 0, NULL, 0 },
		                                      { 0 } };
	static const struct argp argp = {
		option_list, parse,    "[--to fast|slow FILE...]\n--kernel [FILE...]",
		doc,         children, NULL,
		NULL
	};
	static struct tier t;
	struct look *l;
	int err, pid, status = CLI_OK;

	if (argp_parse(&argp, argc, argv, 0, NULL, &t) != 0)
		return CLI_USAGE;
	if (t.kernel)
		return tier_kernel(t.json, t.paths);
	cli_catch_signals();
	err = where_try(&t.where, &l, &pid);
	if (err)
		return where_complain(&t.where, err, pid);
	if (t.move)
		err = move(&t, l, &status);
	if (!err && t.wait)
		err = settle(&t, l);
	if (!err && t.watch)
		err = watch(&t, l);
	else if (!err && !t.move)
		err = look(&t, l);
	look_close(l);
	if (!err && !t.watch && !t.move)
		print(&t);
	forget(&t);
	free(t.files);
	if (cli_stopped)
		return CLI_STOPPED;
	return err ? where_complain(&t.where, err, pid) : status;
}

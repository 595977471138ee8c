/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* `lodic resize`: gives the running cache another size. */
#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/command.h"
#include "cli/text.h"
#include "cli/where.h"
#include "lodic/lodic.h"

#define NS_PER_MS UINT64_C(1000000)
#define POLL_NS 10000000
/* What takes longer says how far it is, so often. */
#define SAY_NS (2000 * NS_PER_MS)
#define PERCENT 100u

struct resize {
	struct where where;
	bool json;
	struct settings size;
};

static const char doc[] =
	"Give the running cache another size. Programs go on, and what they use most stays "
	"cached. For a moment both the old and the new memory are there. The next service that a "
	"program starts has the new size, too. SIZE is for blocks and holds together, and is "
	"taken as it is used."
	"\v"
	"Examples:\n"
	"  lodic resize 4G\n"
	"  lodic resize 512M\n";

static const struct argp_option option_list[] = {
	{ "json", 'j', NULL, 0, "Print JSON, one object", 0 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct resize *r = state->input;

	switch (key) {
	case ARGP_KEY_INIT: state->child_inputs[0] = &r->where; return 0;
	case 'j': r->json = true; return 0;
	case ARGP_KEY_ARG:
		if (r->size.memory_bytes)
			argp_error(state, "'%s' is one size too many", arg);
		else if (settings_set(&r->size, SETTING_MEMORY, arg, SETTINGS_OPTION))
			argp_error(state, "%s", r->size.why);
		return 0;
	case ARGP_KEY_END:
		if (!r->size.memory_bytes)
			argp_error(state, "name a size, as 512M or 4G");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static unsigned int percent_taken(const struct look_resize *now)
{
	unsigned int percent =
		now->had ? (unsigned int)(PERCENT * now->taken / now->had) : 0;

	return percent < PERCENT ? percent : PERCENT; /* blocks may leave meanwhile */
}

/* Waits for the end of the resize that has begun. 0, or why nothing is known of it. */
static int follow(struct look *look, struct look_resize *now)
{
	const struct timespec pause = { .tv_nsec = POLL_NS };
	uint64_t number = now->number, said_ns = cli_now_ns();
	int err = 0;

	while (!err && now->state == LOOK_RESIZE_RUNS && now->number == number &&
	       !cli_stopped) {
		nanosleep(&pause, NULL);
		err = look_resize(look, 0, now);
		if (err || cli_now_ns() - said_ns < SAY_NS)
			continue;
		said_ns = cli_now_ns();
		if (now->had)
			cli_note("%u %% of the blocks are in the new memory",
			         percent_taken(now));
		else
			cli_note("the service makes the new memory");
	}
	return err;
}

static void print_json(const struct look_resize *now, const char *socket)
{
	json_t *o = json_object();

	json_object_set_new(o, "socket", text_json(socket));
	json_object_set_new(o, "from_bytes", json_integer((json_int_t)now->from));
	json_object_set_new(o, "bytes", json_integer((json_int_t)now->to));
	json_object_set_new(o, "had", json_integer((json_int_t)now->had));
	json_object_set_new(o, "taken", json_integer((json_int_t)now->taken));
	json_object_set_new(o, "ns", json_integer((json_int_t)now->ns));
	json_dumpf(o, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(o);
}

static int report(const struct resize *r, const struct look_resize *now)
{
	if (now->state == LOOK_RESIZE_FAILED) {
		cli_error("the cache keeps its %s: %s", text_bytes(now->from).s,
		          now->why);
		return CLI_FAILED;
	}
	if (r->json)
		print_json(now, r->where.socket);
	else
		printf("the cache has %s now (it had %s)", text_bytes(now->to).s,
		       text_bytes(now->from).s);
	/* Blocks that have less than the new size stay where they are. */
	if (!r->json && now->had)
		printf("; %llu of %llu blocks came along, in %llu ms",
		       (unsigned long long)now->taken, (unsigned long long)now->had,
		       (unsigned long long)(now->ns / NS_PER_MS));
	if (!r->json)
		putchar('\n');
	return CLI_OK;
}

int command_resize(int argc, char **argv)
{
	static const struct argp_child children[] = { { &where_argp, 0, NULL, 0 },
		                                      { 0 } };
	static const struct argp argp = { option_list, parse, "SIZE", doc,
		                          children,    NULL,  NULL };
	struct look_resize now = { 0 };
	static struct resize r;
	struct look *look;
	int err, pid;

	if (argp_parse(&argp, argc, argv, 0, NULL, &r) != 0)
		return CLI_USAGE;
	cli_catch_signals();
	err = where_try(&r.where, &look, &pid);
	if (err)
		return where_complain(&r.where, err, pid);
	err = look_resize(look, r.size.memory_bytes, &now);
	if (!err)
		err = follow(look, &now);
	look_close(look);
	if (err == -EBUSY) {
		cli_error("another resize is under way, to %s", text_bytes(now.to).s);
		return CLI_FAILED;
	}
	if (err)
		return where_complain(&r.where, err, pid);
	if (cli_stopped) {
		cli_note("the service goes on with the resize");
		return CLI_STOPPED;
	}
	return report(&r, &now);
}

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* `lodic who`: which programs read through the running cache. */
#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/command.h"
#include "cli/text.h"
#include "cli/where.h"

/* A reader, and the sums over its contexts. */
struct reader {
	struct look_reader r;
	uint64_t contexts, may_pin, pinned, hits, soft_misses, misses, pins_refused;
	uint64_t held; /* bytes of holds that it was given, and that somebody has */
	bool away;     /* it is not attached, but may have holds */
};

struct who {
	struct where where;
	bool json;
	struct reader *list;
	size_t nr, room;
};

static const char doc[] =
	"Print which programs read through the running cache: how many contexts each has, how "
	"many blocks it has pinned, what it holds, and how often it finds what it asks for."
	"\v"
	"Examples:\n"
	"  lodic who\n"
	"  lodic who --json | jq '.readers[] | select(.pinned > 0) | .pid'\n";

static const struct argp_option option_list[] = {
	{ "json", 'j', NULL, 0, "Print JSON, one object", 0 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct who *w = state->input;

	switch (key) {
	case ARGP_KEY_INIT: state->child_inputs[0] = &w->where; return 0;
	case 'j': w->json = true; return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is not an option, and who takes nothing else",
		           arg);
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

/* A new row at the end of the list; NULL: there is no memory. */
static struct reader *add_row(struct who *w)
{
	struct reader *list = w->list;

	if (w->nr == w->room) {
		w->room = w->room ? w->room * 2 : 16;
		list = realloc(list, w->room * sizeof(*list));
		if (!list)
			return NULL;
		w->list = list;
	}
	memset(&list[w->nr], 0, sizeof(*list));
	return &list[w->nr++];
}

static int keep_reader(void *ctx, const void *record)
{
	struct reader *row;

	if (cli_stopped)
		return -EINTR;
	row = add_row(ctx);
	if (!row)
		return -ENOMEM;
	memcpy(&row->r, record, sizeof(row->r));
	return 0;
}

/* The first row of the process. A process that is not attached gets one. */
static struct reader *row_of_process(struct who *w, uint32_t pid)
{
	struct reader *row = w->list;

	while (row < w->list + w->nr && row->r.pid != pid)
		row++;
	if (row < w->list + w->nr)
		return row;
	row = add_row(w);
	if (row) {
		row->r.pid = pid;
		row->away = true;
	}
	return row;
}

/* Charges a hold to all that it was given to, if somebody may have it. */
static int add_hold(void *ctx, const void *record)
{
	const struct look_hold *h = record;

	if (cli_stopped)
		return -EINTR;
	if (h->nr_pids > LOOK_HOLD_PIDS)
		return -EPROTO;
	for (uint32_t i = 0; h->had && i < h->nr_pids; i++) {
		struct reader *row = row_of_process(ctx, h->pids[i]);

		if (!row)
			return -ENOMEM;
		row->held += h->memory;
	}
	return 0;
}

/* Adds a context to its reader. A reader that has come since the list was asked for is not
 * there. */
static int add_context(void *ctx, const void *record)
{
	const struct look_context *c = record;
	struct who *w = ctx;

	if (cli_stopped)
		return -EINTR;
	for (struct reader *r = w->list; r < w->list + w->nr; r++) {
		if (r->away || r->r.serial != c->serial)
			continue;
		r->contexts++;
		r->may_pin += c->quota > 0;
		r->pinned = c->pinned == LOOK_UNKNOWN ? LOOK_UNKNOWN
		                                      : r->pinned + c->pinned;
		r->hits += c->hits;
		r->soft_misses += c->soft_misses;
		r->misses += c->misses;
		r->pins_refused += c->pins_refused;
	}
	return 0;
}

/* Those that use the cache most come first. */
static int compare_readers(const void *a, const void *b)
{
	const struct reader *x = a, *y = b;
	uint64_t u = x->hits + x->misses, v = y->hits + y->misses;

	if (u != v)
		return u > v ? -1 : 1;
	return x->r.serial < y->r.serial ? -1 : x->r.serial > y->r.serial;
}

static void print_reader(const struct reader *r)
{
	if (r->away) {
		printf("%7u %6s %8s %7s %6s %9s %7s %7s %5s %5s  (not attached)\n",
		       r->r.pid, "-", "-", "-", "-", text_bytes(r->held).s, "-", "-",
		       "-", "-");
		return;
	}
	printf("%7u %6s %8llu %7llu %6s %9s %7s %7s %5s %5u  ", r->r.pid,
	       text_age(r->r.age_ns).s, (unsigned long long)r->contexts,
	       (unsigned long long)r->may_pin,
	       r->pinned == LOOK_UNKNOWN ? "?" : text_count(r->pinned).s,
	       r->held ? text_bytes(r->held).s : "-", text_count(r->hits).s,
	       text_count(r->misses).s, text_percent(r->hits, r->hits + r->misses).s,
	       r->r.files);
	text_print(r->r.name[0] ? r->r.name : "?", 0);
	puts(r->r.hung_up ? " (hung up)" : "");
}

static void print_table(const struct who *w)
{
	if (w->nr == 0) {
		fputs("no program is attached to the cache at ", stdout);
		text_print(w->where.socket, 0);
		putchar('\n');
		return;
	}
	printf("%7s %6s %8s %7s %6s %9s %7s %7s %5s %5s  %s\n", "PID", "SINCE",
	       "CONTEXTS", "MAY PIN", "PINNED", "HOLDS", "HITS", "MISSES", "HIT %",
	       "FILES", "PROGRAM");
	for (size_t i = 0; i < w->nr; i++)
		print_reader(&w->list[i]);
}

static json_t *json_of(const struct reader *r)
{
	json_t *o = json_object();

	json_object_set_new(o, "pid", json_integer(r->r.pid));
	json_object_set_new(o, "attached", json_boolean(!r->away));
	json_object_set_new(o, "hold_bytes", json_integer((json_int_t)r->held));
	json_object_set_new(o, "program", text_json(r->r.name));
	json_object_set_new(o, "age_ns", json_integer((json_int_t)r->r.age_ns));
	json_object_set_new(o, "hung_up", json_boolean(r->r.hung_up));
	json_object_set_new(o, "files", json_integer(r->r.files));
	json_object_set_new(o, "contexts", json_integer((json_int_t)r->contexts));
	json_object_set_new(o, "may_pin", json_integer((json_int_t)r->may_pin));
	json_object_set_new(o, "pinned",
	                    r->pinned == LOOK_UNKNOWN
	                            ? json_null()
	                            : json_integer((json_int_t)r->pinned));
	json_object_set_new(o, "hits", json_integer((json_int_t)r->hits));
	json_object_set_new(o, "soft_misses", json_integer((json_int_t)r->soft_misses));
	json_object_set_new(o, "misses", json_integer((json_int_t)r->misses));
	json_object_set_new(o, "pins_refused",
	                    json_integer((json_int_t)r->pins_refused));
	return o;
}

static void print_json(const struct who *w)
{
	json_t *o = json_object(), *readers = json_array();

	for (size_t i = 0; i < w->nr; i++)
		json_array_append_new(readers, json_of(&w->list[i]));
	json_object_set_new(o, "socket", text_json(w->where.socket));
	json_object_set_new(o, "readers", readers);
	json_dumpf(o, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(o);
}

int command_who(int argc, char **argv)
{
	static const struct argp_child children[] = { { &where_argp, 0, NULL, 0 },
		                                      { 0 } };
	static const struct argp argp = { option_list, parse, NULL, doc,
		                          children,    NULL,  NULL };
	static struct who w;
	struct look *look;
	int err, pid;

	if (argp_parse(&argp, argc, argv, 0, NULL, &w) != 0)
		return CLI_USAGE;
	cli_catch_signals();
	err = where_try(&w.where, &look, &pid);
	if (err)
		return where_complain(&w.where, err, pid);
	err = look_list(look, LOOK_READERS, keep_reader, &w);
	if (!err)
		err = look_list(look, LOOK_CONTEXTS, add_context, &w);
	if (!err)
		err = look_list(look, LOOK_HOLDS, add_hold, &w);
	look_close(look);
	if (!err) {
		if (w.nr > 0)
			qsort(w.list, w.nr, sizeof(*w.list), compare_readers);
		if (w.json)
			print_json(&w);
		else
			print_table(&w);
	}
	free(w.list);
	return err ? where_complain(&w.where, err, pid) : CLI_OK;
}

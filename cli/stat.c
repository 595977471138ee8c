/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* `lodic stat`: what the running cache holds and has done. */
#include <argp.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/command.h"
#include "cli/metrics.h"
#include "cli/stat_times.h"
#include "cli/text.h"
#include "cli/watch.h"
#include "lodic/lodic.h"

#define MIB_SHIFT 20
#define NS_PER_S UINT64_C(1000000000)
#define NUMBER_BYTES 24 /* of 2^64 in decimal, and more */

struct stat_options {
	struct where where;
	bool json;
	bool watch;
};

static const char doc[] =
	"Print what the running cache holds and what it has done. The command starts no "
	"cache."
	"\v"
	"Examples:\n"
	"  lodic stat\n"
	"  lodic stat --watch\n"
	"  lodic stat --json | jq .cached\n";

static const struct argp_option option_list[] = {
	{ "json", 'j', NULL, 0, "Print JSON, one object; with --watch one a second",
	  0 },
	{ "watch", 'w', NULL, 0, "Show rates, second by second, until Ctrl-C", 0 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct stat_options *o = state->input;

	switch (key) {
	case ARGP_KEY_INIT: state->child_inputs[0] = &o->where; return 0;
	case 'j': o->json = true; return 0;
	case 'w': o->watch = true; return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is not an option, and stat takes nothing else",
		           arg);
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

/* How a number is shown. */
enum row_kind { ROW_NUMBER, ROW_COUNTER, ROW_YES_NO, ROW_SCHEME };

struct row {
	const char *name;
	size_t at;
	enum row_kind kind;
	const char *meaning;
};

#define STAT(field, kind, meaning) \
	{ #field, offsetof(struct lodic_stat, field), ROW_##kind, meaning },
static const struct row rows[] = {
#include "lib/stat_list.h"
};
#undef STAT
#define NR_ROWS (sizeof(rows) / sizeof(rows[0]))
_Static_assert(NR_ROWS * sizeof(uint64_t) == sizeof(struct lodic_stat),
               "each number of lodic_stat has its row");

static uint64_t row_value(const struct lodic_stat *s, const struct row *row)
{
	uint64_t v;

	memcpy(&v, (const char *)s + row->at, sizeof(v));
	return v;
}

static json_t *row_json(const struct lodic_stat *s, const struct row *row)
{
	uint64_t v = row_value(s, row);

	switch (row->kind) {
	case ROW_SCHEME: return json_string(lodic_scheme_name((enum lodic_scheme)v));
	case ROW_YES_NO: return json_boolean(v);
	case ROW_COUNTER:
	case ROW_NUMBER: break;
	}
	return json_integer((json_int_t)v);
}

static json_t *stat_json(const struct lodic_stat *s, const char *socket)
{
	json_t *o = json_object();

	json_object_set_new(o, "socket", text_json(socket));
	for (size_t i = 0; i < NR_ROWS; i++)
		json_object_set_new(o, rows[i].name, row_json(s, &rows[i]));
	return o;
}

static void print_json(const struct lodic_stat *s, const struct look_times *times,
                       const char *socket)
{
	json_t *o = stat_json(s, socket);

	stat_times_json(o, times);
	json_dumpf(o, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(o);
}

/* For the table; number is room for the text of a number. */
static const char *row_text(const struct lodic_stat *s, const struct row *row,
                            char number[NUMBER_BYTES])
{
	uint64_t v = row_value(s, row);

	if (row->kind == ROW_SCHEME)
		return lodic_scheme_name((enum lodic_scheme)v);
	if (row->kind == ROW_YES_NO)
		return v ? "yes" : "no";
	snprintf(number, NUMBER_BYTES, "%llu", (unsigned long long)v);
	return number;
}

static void print_table(const struct lodic_stat *s, const struct look_times *times,
                        const char *socket)
{
	uint64_t asked = s->hits + s->misses;
	char number[NUMBER_BYTES];

	fputs("cache at ", stdout);
	text_print(socket, 0);
	printf(": %llu MiB, %llu %% in huge pages, counting by %s, up %llu s\n",
	       (unsigned long long)(s->data_bytes >> MIB_SHIFT),
	       (unsigned long long)((100 * s->huge_bytes + s->data_bytes / 2) /
	                            s->data_bytes),
	       lodic_scheme_name((enum lodic_scheme)s->scheme),
	       (unsigned long long)(s->uptime_ns / NS_PER_S));
	if (asked)
		printf("hits: %.2f %% of %llu blocks asked for\n",
		       100.0 * (double)s->hits / (double)asked,
		       (unsigned long long)asked);
	if (s->hold_limit)
		printf("holds: %llu of %llu MiB, %llu %% in huge pages\n",
		       (unsigned long long)(s->hold_bytes >> MIB_SHIFT),
		       (unsigned long long)(s->hold_limit >> MIB_SHIFT),
		       (unsigned long long)(s->hold_bytes ? 100 * s->hold_huge_bytes /
		                                                    s->hold_bytes
		                                          : 0));
	stat_times_print(times);
	for (size_t i = 0; i < NR_ROWS; i++)
		printf("  %-17s %15s  %s\n", rows[i].name,
		       row_text(s, &rows[i], number), rows[i].meaning);
}

void stat_expose(FILE *to, const struct lodic_stat *s)
{
	for (size_t i = 0; i < NR_ROWS; i++) {
		bool counter = rows[i].kind == ROW_COUNTER;
		const char *end = counter ? "_total" : "";

		fprintf(to, "# HELP lodic_%s%s %s\n# TYPE lodic_%s%s %s\n",
		        rows[i].name, end, rows[i].meaning, rows[i].name, end,
		        counter ? "counter" : "gauge");
		fprintf(to, "lodic_%s%s %llu\n", rows[i].name, end,
		        (unsigned long long)row_value(s, &rows[i]));
	}
}

int command_stat(int argc, char **argv)
{
	static const struct argp_child children[] = { { &where_argp, 0, NULL, 0 },
		                                      { 0 } };
	static const struct argp argp = { option_list, parse, NULL, doc,
		                          children,    NULL,  NULL };
	static struct stat_options o;
	struct look_times times[LOOK_NR_TIMES];
	struct lodic_stat s;
	struct look *look;
	int err, pid;

	if (argp_parse(&argp, argc, argv, 0, NULL, &o) != 0)
		return CLI_USAGE;
	cli_catch_signals();
	if (o.watch)
		return watch(&o.where, o.json, stat_json);
	err = where_try(&o.where, &look, &pid);
	if (err)
		return where_complain(&o.where, err, pid);
	err = look_stat(look, &s);
	/* A service of before the times says that there is no such request. */
	if (!err)
		err = stat_times_ask(look, times);
	look_close(look);
	err = err == -EINVAL ? 0 : err;
	if (err)
		return where_complain(&o.where, err, pid);
	if (o.json)
		print_json(&s, times, o.where.socket);
	else
		print_table(&s, times, o.where.socket);
	return CLI_OK;
}

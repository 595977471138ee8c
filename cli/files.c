/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* `lodic files`: what the running cache holds, and why it does not hold other files. */
#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "cli/command.h"
#include "cli/text.h"
#include "cli/where.h"
#include "lodic/lodic.h"

#define SHORT_ROWS 20u     /* without --all */
#define TABLE_COLUMNS 58u  /* in front of a path */
#define REASON_COLUMNS 13u /* the same, for a file that is not held */
#define LEAST_PATH 24u     /* columns of a terminal that a path has in any case */
#define PROGRESS_RECORDS 4096u

struct files {
	struct where where;
	bool json, all;
	char **paths; /* NULL-ended: only these */
	struct look_file **list;
	size_t nr, room;
	uint64_t expected;
};

static const char doc[] =
	"Print which files the running cache holds: how much of each, on what proof, and who "
	"uses it. Also print which files programs have opened that it does not hold, and why."
	"\v"
	"Examples:\n"
	"  lodic files\n"
	"  lodic files --json | jq '.files[] | select(.opens == 0) | .path'\n"
	"  lodic files /srv/models/*    these only; says of each why it is not cached\n";

static const struct argp_option option_list[] = {
	{ "all", 'a', NULL, 0, "Print every file, not only the largest", 0 },
	{ "json", 'j', NULL, 0, "Print JSON, one object, with every file", 0 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct files *f = state->input;

	(void)arg;
	switch (key) {
	case ARGP_KEY_INIT: state->child_inputs[0] = &f->where; return 0;
	case 'a': f->all = true; return 0;
	case 'j': f->json = true; return 0;
	case ARGP_KEY_ARGS: f->paths = state->argv + state->next; return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static int keep(void *ctx, const void *record)
{
	const struct look_file *r = record;
	struct files *f = ctx;
	struct look_file **list = f->list;

	if (cli_stopped)
		return -EINTR;
	if (f->nr == f->room) {
		f->room = f->room ? f->room * 2 : 64;
		list = realloc(list, f->room * sizeof(*list));
		if (!list)
			return -ENOMEM;
		f->list = list;
	}
	list[f->nr] = malloc(r->bytes);
	if (!list[f->nr])
		return -ENOMEM;
	memcpy(list[f->nr++], r, r->bytes);
	if (f->nr % PROGRESS_RECORDS == 0 && f->nr < f->expected)
		cli_progress("listing files",
		             (unsigned int)(100 * f->nr / f->expected));
	return 0;
}

static int compare(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

/* Held files first, those with most blocks in front; then the others, the newest in front. */
static int compare_files(const void *a, const void *b)
{
	const struct look_file *x = *(struct look_file *const *)a;
	const struct look_file *y = *(struct look_file *const *)b;
	bool x_held = x->state == LOOK_HELD, y_held = y->state == LOOK_HELD;

	if (x_held != y_held)
		return x_held ? -1 : 1;
	if (!x_held)
		return compare(x->ago_ns, y->ago_ns);
	if (x->cached != y->cached)
		return -compare(x->cached, y->cached);
	return strcmp(x->path, y->path);
}

static uint64_t blocks_of(uint64_t bytes)
{
	return bytes / LODIC_BLOCK_BYTES + (bytes % LODIC_BLOCK_BYTES != 0);
}

static size_t path_columns(size_t taken)
{
	size_t columns = text_columns();

	if (columns == 0)
		return 0;
	return columns > taken + LEAST_PATH ? columns - taken : LEAST_PATH;
}

static void print_held(const struct look_file *r)
{
	uint64_t bytes = r->cached * LODIC_BLOCK_BYTES;

	printf("%9s %9s %9s %5s %7s %5u  %-9s ",
	       text_bytes(bytes < r->size ? bytes : r->size).s,
	       r->held ? text_bytes(r->held).s : "-", text_bytes(r->size).s,
	       text_percent(r->cached, blocks_of(r->size)).s, text_count(r->hits).s,
	       r->opens, r->proof);
	text_print(r->path, path_columns(TABLE_COLUMNS));
	putchar('\n');
}

/* In two lines, because paths are long and so are reasons. */
static void print_not_held(const struct look_file *r)
{
	printf("%7s ago  ", text_age(r->ago_ns).s);
	text_print(r->path, path_columns(REASON_COLUMNS));
	printf("\n%*s", (int)REASON_COLUMNS, "");
	text_print(look_file_why(r), 0);
	putchar('\n');
}

/* Prints the rows of one part of the list, the first few or all. */
static void print_part(const struct files *f, size_t from, size_t to,
                       void (*print)(const struct look_file *r))
{
	size_t end = !f->all && to - from > SHORT_ROWS ? from + SHORT_ROWS : to;

	for (size_t i = from; i < end; i++)
		print(f->list[i]);
	if (end < to)
		printf("and %zu more; --all prints them\n", to - end);
}

static size_t nr_held(const struct files *f)
{
	size_t n = 0;

	while (n < f->nr && f->list[n]->state == LOOK_HELD)
		n++;
	return n;
}

static void print_table(const struct files *f, const struct lodic_stat *s)
{
	size_t held = nr_held(f);

	fputs("cache at ", stdout);
	text_print(f->where.socket, 0);
	printf(": %s of %s in use, %llu files held\n",
	       text_bytes(s->cached * LODIC_BLOCK_BYTES).s,
	       text_bytes(s->frames * LODIC_BLOCK_BYTES).s,
	       (unsigned long long)s->files);
	if (s->hold_limit > 0)
		printf("holds: %s of %s, %s of these in use\n",
		       text_bytes(s->hold_bytes).s, text_bytes(s->hold_limit).s,
		       text_bytes(s->hold_used_bytes).s);
	if (held > 0) {
		printf("\n%9s %9s %9s %5s %7s %5s  %-9s %s\n", "CACHED", "HOLDS",
		       "SIZE", "%", "HITS", "OPENS", "PROOF", "FILE");
		print_part(f, 0, held, print_held);
	}
	if (held < f->nr) {
		puts("\nnot cached:");
		print_part(f, held, f->nr, print_not_held);
	}
}

static json_t *json_of(const struct look_file *r)
{
	json_t *o = json_object();

	json_object_set_new(o, "path", text_json(r->path));
	json_object_set_new(o, "dev", json_integer((json_int_t)r->dev));
	json_object_set_new(o, "ino", json_integer((json_int_t)r->ino));
	if (r->state != LOOK_HELD) {
		json_object_set_new(o, "revoked",
		                    json_boolean(r->state == LOOK_REVOKED));
		json_object_set_new(o, "errno", json_integer(look_file_errno(r)));
		json_object_set_new(o, "reason", json_string(look_file_reason(r)));
		json_object_set_new(o, "why", text_json(look_file_why(r)));
		json_object_set_new(o, "ago_ns", json_integer((json_int_t)r->ago_ns));
		return o;
	}
	json_object_set_new(o, "size", json_integer((json_int_t)r->size));
	json_object_set_new(o, "cached", json_integer((json_int_t)r->cached));
	json_object_set_new(o, "hold_bytes", json_integer((json_int_t)r->held));
	json_object_set_new(o, "hits", json_integer((json_int_t)r->hits));
	json_object_set_new(o, "opens", json_integer((json_int_t)r->opens));
	json_object_set_new(o, "proof", json_string(r->proof));
	json_object_set_new(o, "direct", json_boolean(r->direct));
	return o;
}

static void print_json(const struct files *f, json_t *unknown)
{
	json_t *o = json_object(), *held = json_array(), *others = json_array();

	for (size_t i = 0; i < f->nr; i++)
		json_array_append_new(f->list[i]->state == LOOK_HELD ? held : others,
		                      json_of(f->list[i]));
	json_object_set_new(o, "socket", text_json(f->where.socket));
	json_object_set_new(o, "files", held);
	json_object_set_new(o, "not_cached", others);
	json_object_set_new(o, "unknown", unknown);
	json_dumpf(o, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(o);
}

/* Keeps of the list only the files that were named. Those that are not in it go to unknown.
 * The exit status: a path that leads nowhere is a failure. */
static int choose(struct files *f, json_t *unknown)
{
	bool *named = calloc(f->nr + 1, sizeof(*named));
	int status = named ? CLI_OK : CLI_FAILED;
	size_t kept = 0;
	struct stat st;

	for (char **path = f->paths; named && *path; path++) {
		bool found = false;

		if (stat(*path, &st) != 0) {
			cli_error("%s: %s", *path, strerror(errno));
			status = CLI_FAILED;
			continue;
		}
		for (size_t i = 0; i < f->nr; i++)
			if (f->list[i]->dev == st.st_dev &&
			    f->list[i]->ino == st.st_ino)
				named[i] = found = true;
		if (!found)
			json_array_append_new(unknown, text_json(*path));
	}
	for (size_t i = 0; named && i < f->nr; i++) {
		if (named[i])
			f->list[kept++] = f->list[i];
		else
			free(f->list[i]);
	}
	if (named)
		f->nr = kept;
	free(named);
	return status;
}

static int show(struct files *f, const struct lodic_stat *s)
{
	json_t *unknown = json_array();
	int status = CLI_OK;
	json_t *path;
	size_t i;

	if (f->nr > 0)
		qsort(f->list, f->nr, sizeof(*f->list), compare_files);
	if (f->paths) {
		f->all = true;
		status = choose(f, unknown);
	}
	if (f->json) {
		print_json(f, unknown);
		return status;
	}
	print_table(f, s);
	json_array_foreach(unknown, i, path)
	{
		fputs(json_string_value(path), stdout); /* by text_json() */
		puts(": the cache does not know it; no program has opened it");
	}
	json_decref(unknown);
	return status;
}

int command_files(int argc, char **argv)
{
	static const struct argp_child children[] = { { &where_argp, 0, NULL, 0 },
		                                      { 0 } };
	static const struct argp argp = { option_list, parse, "[FILE...]", doc,
		                          children,    NULL,  NULL };
	static struct files f;
	struct lodic_stat s;
	struct look *look;
	int err, pid, status;

	if (argp_parse(&argp, argc, argv, 0, NULL, &f) != 0)
		return CLI_USAGE;
	cli_catch_signals();
	err = where_try(&f.where, &look, &pid);
	if (err)
		return where_complain(&f.where, err, pid);
	err = look_stat(look, &s);
	if (!err) {
		f.expected = s.files;
		err = look_list(look, LOOK_FILES, keep, &f);
		cli_progress("", 101);
	}
	look_close(look);
	status = err ? where_complain(&f.where, err, pid) : show(&f, &s);
	while (f.nr > 0)
		free(f.list[--f.nr]);
	free(f.list);
	return status;
}

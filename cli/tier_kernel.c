/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the kernel says of its knodes: cli/tier_kernel.h. /sys/kernel/mm/kloc has settings and
 * counters, for everybody. debugfs has a line for each knode, for root: DEVICE INODE STATE OPENS
 * AGE MOVES and the file's pages on each node.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/text.h"
#include "cli/tier_kernel.h"

#define SETTINGS "/sys/kernel/mm/kloc/"
#define KNODES "/sys/kernel/debug/kloc/knodes"
#define SHORT_ROWS 20u
#define MAX_NODES 1024u
#define LINE_BYTES 256u
#define PATH_AFTER 60u /* columns in front of a path with two nodes */

struct row {
	unsigned int major, minor;
	uint64_t ino, opens, age, moves;
	char state[12];
	const char *path; /* that the user named; NULL: none */
	uint64_t *pages;  /* nr_nodes of them */
	uint64_t sum;
};

struct named {
	const char *path;
	struct stat st;
	bool is_found;
};

struct listing {
	struct named *named; /* files that the user asks for; none: all of them */
	size_t nr_named;
	struct row *rows;
	size_t nr, room, nr_nodes;
	int knodes_error; /* of debugfs */
};

/* The first line of a setting. false: there is none of that name. */
static bool setting(const char *name, char *ret, size_t bytes)
{
	char path[128];
	FILE *f;
	bool is;

	snprintf(path, sizeof(path), SETTINGS "%s", name);
	f = fopen(path, "re");
	is = f && fgets(ret, (int)bytes, f);
	if (f)
		fclose(f);
	if (is)
		ret[strcspn(ret, "\n")] = '\0';
	return is;
}

/* The policy in brackets, of all that there are. */
static const char *policy(char *text, size_t bytes)
{
	char *open, *end;

	if (!setting("policy", text, bytes))
		return "?";
	open = strchr(text, '[');
	end = open ? strchr(open, ']') : NULL;
	if (!end)
		return text;
	*end = '\0';
	return open + 1;
}

/* Calls each() for the lines 'NAME NUMBER' of a file; a word that is no number is 'max'. */
static void pairs(const char *name,
                  void (*each)(void *ctx, const char *name, bool is_max,
                               uint64_t number),
                  void *ctx)
{
	char path[128], line[LINE_BYTES], word[64], value[32], *end;
	FILE *f;

	snprintf(path, sizeof(path), SETTINGS "%s", name);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		uint64_t number;

		if (sscanf(line, "%63s %31s", word, value) != 2)
			continue;
		number = strtoull(value, &end, 10);
		each(ctx, word, *end != '\0', number);
	}
	if (f)
		fclose(f);
}

/* ---- knodes ---- */

/* The numbers of a line's end, one a node. How many; 0: it has something else. */
static size_t pages_of(const char *text, uint64_t *ret_pages)
{
	size_t nr = 0;

	for (;;) {
		char *end;

		text += strspn(text, " ");
		if (*text == '\n' || !*text)
			return nr;
		if (nr == MAX_NODES || *text < '0' || *text > '9')
			return 0;
		ret_pages[nr++] = strtoull(text, &end, 10);
		text = end;
	}
}

/* Has the user asked for this file? */
static bool is_wanted(struct listing *v, struct row *row)
{
	if (!v->nr_named)
		return true;
	for (struct named *n = v->named; n < v->named + v->nr_named; n++)
		if (n->st.st_ino == row->ino && major(n->st.st_dev) == row->major &&
		    minor(n->st.st_dev) == row->minor) {
			n->is_found = true;
			row->path = n->path;
			return true;
		}
	return false;
}

static int keep_line(struct listing *v, const char *line)
{
	uint64_t pages[MAX_NODES];
	struct row row = { .path = NULL };
	size_t nr_nodes = 0;
	int at = 0;

	if (sscanf(line, "%u:%u %" SCNu64 " %11s %" SCNu64 " %" SCNu64 " %" SCNu64 "%n",
	           &row.major, &row.minor, &row.ino, row.state, &row.opens, &row.age,
	           &row.moves, &at) == 7)
		nr_nodes = pages_of(line + at, pages);
	if (nr_nodes == 0 || (v->nr_nodes && v->nr_nodes != nr_nodes))
		return -EBADMSG;
	v->nr_nodes = nr_nodes;
	if (!is_wanted(v, &row))
		return 0;
	if (v->nr == v->room) {
		size_t room = v->room ? v->room * 2 : 64;
		struct row *more = realloc(v->rows, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		v->rows = more;
		v->room = room;
	}
	for (size_t i = 0; i < nr_nodes; i++)
		row.sum += pages[i];
	row.pages = malloc(nr_nodes * sizeof(*pages));
	if (!row.pages)
		return -ENOMEM;
	memcpy(row.pages, pages, nr_nodes * sizeof(*pages));
	v->rows[v->nr++] = row;
	return 0;
}

/* Those with most pages first. */
static int compare_rows(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->sum != y->sum)
		return x->sum < y->sum ? 1 : -1;
	return x->ino < y->ino ? -1 : x->ino > y->ino;
}

static int knodes_read(struct listing *v)
{
	FILE *f = fopen(KNODES, "re");
	char *line = NULL;
	size_t bytes = 0;
	int err = 0;

	if (!f)
		return -errno;
	errno = 0;
	while (!err && getline(&line, &bytes, f) >= 0)
		err = keep_line(v, line);
	if (!err && ferror(f))
		err = errno ? -errno : -EIO;
	free(line);
	fclose(f);
	if (v->nr > 0)
		qsort(v->rows, v->nr, sizeof(*v->rows), compare_rows);
	return err;
}

/* Why there are no knodes, and what to do. */
static void complain(int err)
{
	switch (err) {
	case -EACCES:
	case -EPERM:
		cli_error(
			"the kernel's knodes are in debugfs, which only root may read: sudo "
			"lodic tier --kernel");
		break;
	case -ENOENT:
		cli_error("no " KNODES
		          ": mount debugfs, as root: mount -t debugfs none "
		          "/sys/kernel/debug");
		break;
	case -EBADMSG:
		cli_error(KNODES
		          ": a line is not as this lodic knows it; use the lodic that "
		          "the kernel's series came with");
		break;
	default: cli_error(KNODES ": %s", strerror(-err));
	}
}

/* ---- a table ---- */

struct counters {
	uint64_t knodes, active, inactive, unlinked, demoted, promoted, busy, no_room,
		kept;
};

static void keep_counter(void *ctx, const char *name, bool is_max, uint64_t number)
{
	struct counters *c = ctx;
	const struct {
		const char *name;
		uint64_t *to;
	} known[] = {
		{ "knodes", &c->knodes },     { "active", &c->active },
		{ "inactive", &c->inactive }, { "unlinked", &c->unlinked },
		{ "demoted", &c->demoted },   { "promoted", &c->promoted },
		{ "busy", &c->busy },         { "no_room", &c->no_room },
		{ "kept", &c->kept },
	};

	for (size_t i = 0; !is_max && i < sizeof(known) / sizeof(*known); i++)
		if (strcmp(name, known[i].name) == 0)
			*known[i].to = number;
}

static void print_limit(void *ctx, const char *node, bool is_max, uint64_t bytes)
{
	(void)ctx;
	if (!is_max)
		printf("page cache on node %s: at most %s\n", node,
		       text_bytes(bytes).s);
}

static void print_rows(const struct listing *v)
{
	size_t columns = text_columns(), end = v->nr > SHORT_ROWS ? SHORT_ROWS : v->nr;
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	if (v->nr == 0)
		return;
	putchar('\n');
	for (size_t i = 0; i < v->nr_nodes; i++)
		printf(i < 10 ? "    NODE %zu " : "   NODE %zu ", i);
	printf(" %-8s %5s %6s %5s  %-9s %s\n", "STATE", "OPENS", "AGE", "MOVES",
	       "DEVICE", v->nr_named ? "FILE" : "INODE");
	for (size_t i = 0; i < end; i++) {
		const struct row *row = &v->rows[i];
		char device[24];

		snprintf(device, sizeof(device), "%u:%u", row->major, row->minor);
		for (size_t node = 0; node < v->nr_nodes; node++)
			printf("%10s ", text_bytes(row->pages[node] * page).s);
		printf(" %-8s %5" PRIu64 " %6" PRIu64 " %5" PRIu64 "  %-9s ",
		       row->state, row->opens, row->age, row->moves, device);
		if (row->path)
			text_print(row->path,
			           columns > PATH_AFTER ? columns - PATH_AFTER : 0);
		else
			printf("%" PRIu64, row->ino);
		putchar('\n');
	}
	if (end < v->nr)
		printf("and %zu more; --json prints them\n", v->nr - end);
}

static void print_table(const struct listing *v, bool is_on)
{
	struct counters c = { 0 };
	char text[LINE_BYTES], promote[LINE_BYTES] = "0", age[LINE_BYTES] = "0";

	pairs("stat", keep_counter, &c);
	setting("promote", promote, sizeof(promote));
	setting("age_limit", age, sizeof(age));
	printf("kernel: kloc is %s, policy %s, %s, ", is_on ? "on" : "off",
	       policy(text, sizeof(text)),
	       strcmp(promote, "0") == 0 ? "no promotion" : "promotion");
	if (strcmp(age, "0") == 0)
		puts("open files do not age");
	else
		printf("open files age after %s ticks\n", age);
	printf("%s knodes: %s active, %s inactive, %s unlinked\n",
	       text_count(c.knodes).s, text_count(c.active).s, text_count(c.inactive).s,
	       text_count(c.unlinked).s);
	printf("pages moved: %s down, %s up; %s busy, %s without room; %s times kept\n",
	       text_count(c.demoted).s, text_count(c.promoted).s, text_count(c.busy).s,
	       text_count(c.no_room).s, text_count(c.kept).s);
	pairs("memsize", print_limit, NULL);
	print_rows(v);
}

/* ---- JSON ---- */

static json_t *number(uint64_t n)
{
	return json_integer((json_int_t)n);
}

static void keep_pair(void *ctx, const char *name, bool is_max, uint64_t n)
{
	json_object_set_new(ctx, name, is_max ? json_null() : number(n));
}

static json_t *json_of_row(const struct listing *v, const struct row *row)
{
	json_t *o = json_object(), *pages = json_array();
	char device[24];

	snprintf(device, sizeof(device), "%u:%u", row->major, row->minor);
	for (size_t i = 0; i < v->nr_nodes; i++)
		json_array_append_new(pages, number(row->pages[i]));
	json_object_set_new(o, "dev", json_string(device));
	json_object_set_new(o, "ino", number(row->ino));
	if (row->path)
		json_object_set_new(o, "path", text_json(row->path));
	json_object_set_new(o, "state", json_string(row->state));
	json_object_set_new(o, "opens", number(row->opens));
	json_object_set_new(o, "age", number(row->age));
	json_object_set_new(o, "moves", number(row->moves));
	json_object_set_new(o, "pages", pages);
	return o;
}

static void print_json(const struct listing *v, bool is_on)
{
	static const char *const numbers[] = { "promote", "age_limit", "ping_pong",
		                               "forgive", "tick_ms",   "rate_mb" };
	json_t *o = json_object(), *knodes = json_array(), *stat = json_object(),
	       *memsize = json_object();
	char text[LINE_BYTES];

	json_object_set_new(o, "enabled", json_boolean(is_on));
	json_object_set_new(o, "policy", text_json(policy(text, sizeof(text))));
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (setting(numbers[i], text, sizeof(text)))
			json_object_set_new(o, numbers[i],
			                    number(strtoull(text, NULL, 10)));
	pairs("memsize", keep_pair, memsize);
	pairs("stat", keep_pair, stat);
	for (size_t i = 0; i < v->nr; i++)
		json_array_append_new(knodes, json_of_row(v, &v->rows[i]));
	if (v->knodes_error) {
		json_decref(knodes);
		knodes = json_null();
	}
	json_object_set_new(o, "memsize", memsize);
	json_object_set_new(o, "stat", stat);
	json_object_set_new(o, "knodes", knodes);
	json_dumpf(o, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(o);
}

/* Looks the paths up. 0, or the exit status, and it has said what is wrong. */
static int name_files(struct listing *v, char *const *paths)
{
	size_t nr = 0;

	while (paths && paths[nr])
		nr++;
	v->named = nr ? calloc(nr, sizeof(*v->named)) : NULL;
	if (nr && !v->named) {
		cli_error("%s", strerror(ENOMEM));
		return CLI_FAILED;
	}
	for (; v->nr_named < nr; v->nr_named++) {
		struct named *n = &v->named[v->nr_named];

		n->path = paths[v->nr_named];
		if (stat(n->path, &n->st) != 0) {
			cli_error("%s: %s", n->path, strerror(errno));
			return CLI_FAILED;
		}
	}
	return 0;
}

static int listing_print(struct listing *v, bool json, bool is_on)
{
	int status = CLI_OK;

	v->knodes_error = knodes_read(v);
	if (json)
		print_json(v, is_on);
	else
		print_table(v, is_on);
	fflush(stdout);
	if (v->knodes_error) {
		complain(v->knodes_error);
		return CLI_FAILED;
	}
	for (struct named *n = v->named; n < v->named + v->nr_named; n++)
		if (!n->is_found) {
			cli_error(
				"%s: the kernel has no knode of it; a program must open it "
				"while kloc is on",
				n->path);
			status = CLI_FAILED;
		}
	return status;
}

int tier_kernel(bool json, char *const *paths)
{
	struct listing v = { .nr = 0 };
	char on[LINE_BYTES];
	int status;

	if (!setting("enabled", on, sizeof(on))) {
		cli_error("this kernel has no KLOC: no " SETTINGS
		          "; kernel/README.md of "
		          "lodic says how to build one that has");
		return CLI_FAILED;
	}
	status = name_files(&v, paths);
	if (!status)
		status = listing_print(&v, json, strcmp(on, "1") == 0);
	while (v.nr > 0)
		free(v.rows[--v.nr].pages);
	free(v.rows);
	free(v.named);
	return status;
}

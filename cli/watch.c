/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: cli/watch.h. */
#include "cli/watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/text.h"
#include "lodic/lodic.h"

#define NS_PER_S UINT64_C(1000000000)
#define HISTORY 60u
#define BAR_COLUMNS 40u
#define TOP_FILES 5u
/* With more files than this, the screen does without the list of the largest. */
#define TOP_FILES_OF 512u
#define TOP_COLUMNS 33u /* in front of a path */
#define TOP_ROW 18u     /* the row of the screen in which the first of them stands */
#define SCREEN_BYTES 16384
/* The terminal's other screen, without cursor and line breaks; and back. */
#define SCREEN_ENTER "\033[?1049h\033[?25l\033[?7l"
#define SCREEN_LEAVE "\033[?7h\033[?25h\033[?1049l"
#define SCREEN_HOME "\033[H"
#define LINE_END "\033[K\n"
#define SCREEN_CLEAR_REST "\033[J"

struct watch {
	struct where *where;
	bool json, terminal;
	json_t *(*to_json)(const struct lodic_stat *s, const char *socket);
	struct look *look; /* NULL: not connected */
	int pid;
	int error; /* why not */
	bool said; /* that it waits, or the heading of the lines */
	bool has_rates;
	struct lodic_stat now, before;
	uint64_t at_ns, before_ns;
	int history[HISTORY]; /* hits of 1000; -1: nothing was asked for */
	struct look_file *top[TOP_FILES];
};

/* The numbers with a rate. */
static const struct watch_row {
	const char *name, *label, *heading;
	size_t at;
} rows[] = {
	{ "hits", "hits", "HITS/s", offsetof(struct lodic_stat, hits) },
	{ "misses", "misses", "MISSES/s", offsetof(struct lodic_stat, misses) },
	{ "admitted", "admitted", "ADMITTED/s", offsetof(struct lodic_stat, admitted) },
	{ "evicted", "evicted", "EVICTED/s", offsetof(struct lodic_stat, evicted) },
	{ "pins_refused", "pins refused", "REFUSED/s",
	  offsetof(struct lodic_stat, pins_refused) },
};
#define NR_ROWS (sizeof(rows) / sizeof(rows[0]))

static uint64_t watch_value(const struct lodic_stat *s, const struct watch_row *row)
{
	uint64_t v;

	memcpy(&v, (const char *)s + row->at, sizeof(v));
	return v;
}

/* How much it has grown since the last look. Readers write some of these counters, and one
 * that is closed takes its own along. */
static uint64_t watch_delta(const struct watch *w, const struct watch_row *row)
{
	uint64_t now = watch_value(&w->now, row), before = watch_value(&w->before, row);

	return now > before ? now - before : 0;
}

static uint64_t watch_rate(const struct watch *w, const struct watch_row *row)
{
	return (uint64_t)((double)watch_delta(w, row) * (double)NS_PER_S /
	                  (double)(w->at_ns - w->before_ns));
}

static struct text watch_ratio_now(const struct watch *w)
{
	struct text none = { "-" };
	uint64_t hits = watch_delta(w, &rows[0]);

	return w->has_rates ? text_percent(hits, hits + watch_delta(w, &rows[1]))
	                    : none;
}

static void watch_disconnect(struct watch *w)
{
	look_close(w->look);
	w->look = NULL;
	w->has_rates = false;
	w->before_ns = 0;
}

static void watch_note_history(struct watch *w)
{
	uint64_t hits = watch_delta(w, &rows[0]);
	uint64_t asked = hits + watch_delta(w, &rows[1]);

	memmove(w->history, w->history + 1, sizeof(w->history) - sizeof(w->history[0]));
	w->history[HISTORY - 1] = w->has_rates && asked
	                                  ? (int)(1000.0 * (double)hits / (double)asked)
	                                  : -1;
}

/* Keeps copies of the largest files. */
static int watch_keep_top(void *ctx, const void *record)
{
	const struct look_file *r = record;
	struct watch *w = ctx;
	struct look_file *copy;
	size_t i = TOP_FILES;

	while (i > 0 && (!w->top[i - 1] || w->top[i - 1]->cached < r->cached))
		i--;
	if (cli_stopped)
		return -EINTR;
	if (r->state != LOOK_HELD || i == TOP_FILES)
		return 0;
	copy = malloc(r->bytes);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, r, r->bytes);
	free(w->top[TOP_FILES - 1]);
	memmove(&w->top[i + 1], &w->top[i], (TOP_FILES - 1 - i) * sizeof(*w->top));
	w->top[i] = copy;
	return 0;
}

static void watch_forget_top(struct watch *w)
{
	for (size_t i = 0; i < TOP_FILES; i++) {
		free(w->top[i]);
		w->top[i] = NULL;
	}
}

/* Asks the service, after connecting to it if need be. 0 or -errno. */
static int watch_ask(struct watch *w)
{
	struct lodic_stat s;
	int err = 0;

	if (!w->look)
		err = where_try(w->where, &w->look, &w->pid);
	if (!err)
		err = look_stat(w->look, &s);
	watch_forget_top(w);
	if (!err && w->terminal && s.files <= TOP_FILES_OF)
		err = look_list(w->look, LOOK_FILES, watch_keep_top, w);
	if (err) {
		watch_disconnect(w);
		return err;
	}
	w->before = w->now;
	w->before_ns = w->at_ns * (w->before_ns != 0);
	w->now = s;
	w->at_ns = cli_now_ns();
	w->has_rates = w->before_ns != 0;
	if (w->before_ns == 0)
		w->before_ns = w->at_ns;
	return 0;
}

/* Is it worth while to wait after this error? */
static bool watch_may_wait(int error)
{
	return error == -ENOENT || error == -ECONNREFUSED || error == -ECONNRESET ||
	       error == -ETIMEDOUT;
}

static void watch_draw_history(const struct watch *w)
{
	/* U+2581 to U+2588: a block of so many eighths. */
	static const char *const blocks[] = { "\u2581", "\u2582", "\u2583", "\u2584",
		                              "\u2585", "\u2586", "\u2587", "\u2588" };
	static const char *const plain[] = { "_", ".", ":", "-", "=", "+", "*", "#" };
	const char *const *levels = text_is_utf8() ? blocks : plain;

	fputs("           ", stdout);
	for (size_t i = 0; i < HISTORY; i++)
		fputs(w->history[i] < 0 ? " " : levels[w->history[i] * 7 / 1000],
		      stdout);
	fputs(LINE_END, stdout);
}

static void watch_draw_bar(uint64_t part, uint64_t whole)
{
	unsigned int full =
		whole ? (unsigned int)((double)part / (double)whole * BAR_COLUMNS + 0.5)
		      : 0;

	putchar('[');
	for (unsigned int i = 0; i < BAR_COLUMNS; i++)
		putchar(i < full ? '#' : ' ');
	putchar(']');
}

static void watch_draw_top(const struct watch *w)
{
	unsigned int columns = text_columns();
	/* A screen that is too low must not scroll. */
	size_t room = text_rows() > TOP_ROW ? text_rows() - TOP_ROW : 0;

	if (!w->top[0] || room == 0)
		return;
	printf(LINE_END "  %9s  %9s  %5s   %s" LINE_END, "CACHED", "SIZE", "%",
	       "LARGEST FILES");
	for (size_t i = 0; i < TOP_FILES && i < room && w->top[i]; i++) {
		const struct look_file *r = w->top[i];
		uint64_t bytes = r->cached * LODIC_BLOCK_BYTES;

		printf("  %9s  %9s  %5s   ",
		       text_bytes(bytes < r->size ? bytes : r->size).s,
		       text_bytes(r->size).s,
		       text_percent(bytes < r->size ? bytes : r->size, r->size).s);
		text_print(r->path, columns > TOP_COLUMNS ? columns - TOP_COLUMNS : 0);
		fputs(LINE_END, stdout);
	}
}

static void watch_draw_numbers(const struct watch *w)
{
	const struct lodic_stat *s = &w->now;

	fputs("cache at ", stdout);
	text_print(w->where->socket, 0);
	fputs(LINE_END, stdout);
	printf("%s, counting by %s, pid %llu, up %s" LINE_END LINE_END,
	       text_bytes(s->data_bytes).s,
	       lodic_scheme_name((enum lodic_scheme)s->scheme),
	       (unsigned long long)s->service_pid, text_age(s->uptime_ns).s);
	printf("  hits     %5s %% now   %5s %% in all" LINE_END, watch_ratio_now(w).s,
	       text_percent(s->hits, s->hits + s->misses).s);
	watch_draw_history(w);
	fputs("  cached   ", stdout);
	watch_draw_bar(s->cached, s->frames);
	printf(" %s of %s" LINE_END, text_bytes(s->cached * LODIC_BLOCK_BYTES).s,
	       text_bytes(s->frames * LODIC_BLOCK_BYTES).s);
	printf("  readers  %llu processes, %llu contexts, %llu blocks pinned" LINE_END
	       "  files    %llu held, %llu given up for a writer" LINE_END LINE_END,
	       (unsigned long long)s->clients, (unsigned long long)s->contexts,
	       (unsigned long long)s->pinned, (unsigned long long)s->files,
	       (unsigned long long)s->revoked);
	printf("  %-12s %12s %12s" LINE_END, "", "per second", "in all");
	for (size_t i = 0; i < NR_ROWS; i++)
		printf("  %-12s %12s %12s" LINE_END, rows[i].label,
		       w->has_rates ? text_count(watch_rate(w, &rows[i])).s : "-",
		       text_count(watch_value(s, &rows[i])).s);
	watch_draw_top(w);
}

static void watch_draw(const struct watch *w)
{
	bool silent = w->error == -ETIMEDOUT;

	fputs(SCREEN_HOME, stdout);
	if (w->error == 0) {
		watch_draw_numbers(w);
	} else {
		fputs(silent ? "the service at " : "waiting for a service at ", stdout);
		text_print(w->where->socket, 0);
		if (silent)
			printf(" does not answer; is it stopped? (pid %d)", w->pid);
		fputs(LINE_END, stdout);
	}
	fputs(SCREEN_CLEAR_REST, stdout);
}

static void watch_print_json(const struct watch *w)
{
	json_t *o = w->to_json(&w->now, w->where->socket), *rates = json_null();

	if (w->has_rates) {
		rates = json_object();
		for (size_t i = 0; i < NR_ROWS; i++)
			json_object_set_new(
				rates, rows[i].name,
				json_integer((json_int_t)watch_rate(w, &rows[i])));
	}
	json_object_set_new(o, "per_second", rates);
	json_dumpf(o, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(o);
}

static void watch_print_line(struct watch *w)
{
	if (!w->said) {
		for (size_t i = 0; i < NR_ROWS; i++)
			printf("%12s", rows[i].heading);
		printf("%8s%12s\n", "HIT %", "CACHED");
		w->said = true;
	}
	if (!w->has_rates)
		return; /* a second is not over yet */
	for (size_t i = 0; i < NR_ROWS; i++)
		printf("%12s", text_count(watch_rate(w, &rows[i])).s);
	printf("%8s%12s\n", watch_ratio_now(w).s,
	       text_bytes(w->now.cached * LODIC_BLOCK_BYTES).s);
}

static void watch_print(struct watch *w, int last_error)
{
	if (w->terminal)
		watch_draw(w);
	else if (w->error == last_error && w->error)
		return;
	else if (w->error == -ETIMEDOUT)
		where_complain(w->where, w->error, w->pid);
	else if (w->error)
		cli_note("waiting for a service at %s", w->where->socket);
	else if (w->json)
		watch_print_json(w);
	else
		watch_print_line(w);
}

/* One round a second. 0, or what ends the watch. */
static int watch_rounds(struct watch *w)
{
	struct timespec next;
	int last = 0;

	clock_gettime(CLOCK_MONOTONIC, &next);
	while (!cli_stopped) {
		w->error = watch_ask(w);
		if (w->error == -EINTR)
			continue;
		if (w->error && !watch_may_wait(w->error))
			return w->error;
		watch_note_history(w);
		watch_print(w, last);
		if (fflush(stdout) != 0)
			return -EPIPE;
		last = w->error;
		next.tv_sec++;
		if (w->error == -ETIMEDOUT)
			clock_gettime(CLOCK_MONOTONIC, &next);
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	return -EINTR;
}

int watch(struct where *where, bool json,
          json_t *(*to_json)(const struct lodic_stat *s, const char *socket))
{
	static char screen[SCREEN_BYTES];
	struct watch w = {
		.where = where,
		.json = json,
		.terminal = !json && isatty(STDOUT_FILENO),
		.to_json = to_json,
	};
	int err;

	for (size_t i = 0; i < HISTORY; i++)
		w.history[i] = -1;
	if (w.terminal) {
		setvbuf(stdout, screen, _IOFBF, sizeof(screen)); /* a screen at once */
		fputs(SCREEN_ENTER, stdout);
	}
	err = watch_rounds(&w);
	if (w.terminal) {
		fputs(SCREEN_LEAVE, stdout);
		fflush(stdout);
	}
	watch_forget_top(&w);
	look_close(w.look);
	return err == -EPIPE ? CLI_FAILED : where_complain(where, err, w.pid);
}

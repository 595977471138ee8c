/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The readable interleaving. Contract: host/check/trace.h.
 *
 * A schedule has dozens to thousands of steps, and few of them tell why it breaks a rule.
 * Steps at words in which no two tasks meet are left out; so is the middle of what is too
 * long to read.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/check/engine.h"
#include "host/check/trace.h"

#define LINES_MAX 8192u
#define LINE_CHARS 120u
#define WIDTH 98u
/* More tasks than that stand in one column, each with its name. */
#define COLUMNS_MAX 3u
#define NAME_CHARS 18u
#define HEAD_LINES 60u
#define TAIL_LINES 100u

struct line {
	u8 task;
	bool loads;  /* and nothing else */
	const u8 *p; /* NULL: no word */
	u32 bytes;
	char text[LINE_CHARS];
};

static struct {
	struct line lines[LINES_MAX];
	u32 nr;
	FILE *out;
	u32 nr_columns, width;
	u32 column[CHECK_MAX_TASKS];
} trace;

static struct line *add(u32 task, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static struct line *add(u32 task, const char *format, ...)
{
	struct line *line = &trace.lines[trace.nr];
	va_list args;

	/* The last slot is written over and over: what comes then is not shown. */
	if (trace.nr < LINES_MAX - 1)
		trace.nr++;
	line->task = (u8)(task < CHECK_MAX_TASKS ? task : 0);
	line->p = NULL;
	line->bytes = 0;
	line->loads = false;
	va_start(args, format);
	vsnprintf(line->text, LINE_CHARS, format, args);
	va_end(args);
	return line;
}

static void noted(const char *text)
{
	add(engine.current, "# %s", text);
}

static const char *number(u64 v, char *buffer, size_t n)
{
	if (v < 100000 || v > -(u64)1000)
		snprintf(buffer, n, "%lld", (long long)v);
	else
		snprintf(buffer, n, "0x%llx", (unsigned long long)v);
	return buffer;
}

static struct line *add_change(const struct step *s, const char *where)
{
	char a[24], b[24], r[24];

	number(s->a, a, sizeof(a));
	number(s->b, b, sizeof(b));
	number(s->result, r, sizeof(r));
	switch (s->kind) {
	case STEP_CAS:
		if (s->ok)
			return add(s->entity, "cas %s %s -> %s", where, a, b);
		return add(s->entity, "cas %s fails: is %s, not %s", where, r, a);
	case STEP_PERCPU_CAS:
		return add(s->entity, "cas of CPU %u %s %s -> %s%s", s->cpu, where, a,
		           b, s->ok ? "" : " fails");
	case STEP_PERCPU_ADD:
		return add(s->entity, "add of CPU %u %s + %s", s->cpu, where, a);
	case STEP_ADD:
		number(s->result + s->a, b, sizeof(b));
		return add(s->entity, "add %s %s -> %s", where, r, b);
	default: return add(s->entity, "xchg %s %s -> %s", where, r, a);
	}
}

static void seen(const struct step *s)
{
	char name[64], a[24];
	const char *where = s->p ? memory_name(s->p, name, sizeof(name)) : "";
	bool buffered = buffer_has(s->cpu);
	char old[32] = "";
	struct line *line;

	if (s->newer > 0)
		snprintf(old, sizeof(old), " (%u newer)", s->newer);

	switch (s->kind) {
	case STEP_LOAD:
	case STEP_LOAD_BYTE:
		line = add(s->entity, "load %s = %s%s", where,
		           number(s->result, a, sizeof(a)), old);
		line->loads = true;
		break;
	case STEP_STORE:
	case STEP_STORE_BYTE:
		line = add(s->entity, "store %s = %s%s", where,
		           number(s->a, a, sizeof(a)), buffered ? " (buffered)" : "");
		break;
	case STEP_DRAIN:
		line = add(engine.cpus[s->cpu].last_task,
		           "(store reaches memory: %s = %s)", where,
		           number(s->a, a, sizeof(a)));
		break;
	case STEP_COPY:
		line = add(s->entity, "copy %u bytes of %s", (u32)s->a, where);
		line->loads = true;
		break;
	case STEP_FENCE: line = add(s->entity, "full fence"); break;
	case STEP_HEAVY:
		line = add(s->entity, "heavy fence");
		break;
	case STEP_RELAX: line = add(s->entity, "relax"); break;
	default: line = add_change(s, where);
	}
	line->p = s->p;
	line->bytes = s->kind == STEP_COPY ? (u32)s->a : 8;
	if (s->kind == STEP_LOAD_BYTE || s->kind == STEP_STORE_BYTE)
		line->p -= (uintptr_t)s->p & 7;
}

static bool overlap(const struct line *a, const struct line *b)
{
	return a->p && b->p && a->p < b->p + b->bytes && b->p < a->p + a->bytes;
}

/* Do two tasks meet there, and does one of them change it? Steps at any other word tell
 * nothing about the order. */
static bool is_shown(const struct line *line)
{
	bool changed = false, met = false;

	if (!line->p)
		return true;
	for (u32 i = 0; i < trace.nr; i++) {
		if (!overlap(line, &trace.lines[i]))
			continue;
		changed = changed || !trace.lines[i].loads;
		met = met || trace.lines[i].task != line->task;
	}
	return changed && met;
}

/* Two tasks of the same name are told apart by their numbers. */
static const char *task_name(u32 task, char *buffer, size_t n)
{
	u32 same = 0;

	for (u32 i = 0; i < engine.nr_tasks; i++)
		same += strcmp(engine.tasks[i].name, engine.tasks[task].name) == 0;
	if (same > 1)
		snprintf(buffer, n, "%s %u", engine.tasks[task].name, task);
	else
		snprintf(buffer, n, "%s", engine.tasks[task].name);
	return buffer;
}

static void print_header(void)
{
	char name[40], text[2 * WIDTH] = "";
	u32 c, i;

	if (trace.nr_columns > COLUMNS_MAX)
		return;
	for (c = 0; c < trace.nr_columns; c++)
		for (i = 0; i < engine.nr_tasks; i++)
			if (trace.column[i] == c)
				snprintf(text + c * trace.width,
				         sizeof(text) - c * trace.width, "%-*.*s",
				         c + 1 < trace.nr_columns ? (int)trace.width
				                                  : 0,
				         (int)trace.width - 1,
				         task_name(i, name, sizeof(name)));
	fprintf(trace.out, "  %s\n", text);
}

/* text, from column at on, in as many lines as it needs. */
static void print_wrapped(u32 at, u32 width, const char *text)
{
	size_t left = strlen(text), part;
	bool first = true;

	while (left > 0) {
		part = left < width ? left : width;
		/* Between two words, if there is a place for it. */
		if (part < left)
			for (size_t i = part; i > width / 2; i--)
				if (text[i] == ' ') {
					part = i;
					break;
				}
		fprintf(trace.out, "%*s%.*s\n", first ? 0 : (int)at, "", (int)part,
		        text);
		text += part;
		left -= part;
		while (*text == ' ') {
			text++;
			left--;
		}
		first = false;
		if (left > 0)
			fputs("  ", trace.out); /* indents what goes on */
	}
}

static void print_line(const struct line *line, u32 times)
{
	u32 at = trace.column[line->task] * trace.width;
	u32 width = trace.width - 3;
	char text[LINE_CHARS + 16], name[40];

	snprintf(text, sizeof(text), times > 1 ? "%s (%u times)" : "%s", line->text,
	         times);
	if (trace.nr_columns > COLUMNS_MAX) {
		fprintf(trace.out, "  %-*.*s ", (int)NAME_CHARS, (int)NAME_CHARS,
		        task_name(line->task, name, sizeof(name)));
		at = NAME_CHARS + 3;
		width = WIDTH - at;
	} else {
		fprintf(trace.out, "  %*s", (int)at, "");
		at += 2;
	}
	print_wrapped(at, width, text);
}

static bool is_same(const struct line *a, const struct line *b)
{
	return a->task == b->task && strcmp(a->text, b->text) == 0;
}

static void set_columns(const u32 *shown, u32 nr)
{
	u32 i, task;

	memset(trace.column, 0xff, sizeof(trace.column));
	trace.nr_columns = 0;
	for (i = 0; i < nr; i++) {
		task = trace.lines[shown[i]].task;
		if (trace.column[task] == (u32)-1)
			trace.column[task] = trace.nr_columns++;
	}
	trace.width = WIDTH / (trace.nr_columns ? trace.nr_columns : 1);
}

void trace_begin(void)
{
	trace.nr = 0;
	engine.seen = seen;
	engine.noted = noted;
}

void trace_end(FILE *out)
{
	static u32 shown[LINES_MAX];
	u32 nr = 0, i, times;

	trace.out = out;
	engine.seen = NULL;
	engine.noted = NULL;
	for (i = 0; i < trace.nr; i++)
		if (is_shown(&trace.lines[i]))
			shown[nr++] = i;
	set_columns(shown, nr);
	print_header();
	for (i = 0; i < nr; i += times) {
		times = 1;
		if (i == HEAD_LINES && nr > HEAD_LINES + TAIL_LINES) {
			times = nr - HEAD_LINES - TAIL_LINES;
			fprintf(trace.out, "  ... %u lines ...\n", times);
			continue;
		}
		while (i + times < nr &&
		       is_same(&trace.lines[shown[i]], &trace.lines[shown[i + times]]))
			times++;
		if (i < HEAD_LINES && i + times > HEAD_LINES)
			times = HEAD_LINES - i;
		print_line(&trace.lines[shown[i]], times);
	}
	if (nr < trace.nr)
		fprintf(trace.out,
		        "  (%u steps at words in which tasks do not meet are left out)\n",
		        trace.nr - nr);
	if (engine.failed)
		fprintf(trace.out, "  broken: %s\n", engine.what);
}

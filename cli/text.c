/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: cli/text.h. */
#include "cli/text.h"

#include <langinfo.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "lib/escape.h"

#define NS_PER_S UINT64_C(1000000000)
#define EXACT_BELOW 100000u
#define GAP "..."

/* n in the largest unit that it reaches, with three digits or so. */
static struct text text_scaled(uint64_t n, double step, const char *const *units)
{
	double v = (double)n;
	struct text t;

	while (v >= step * 0.9995 && units[1]) {
		v /= step;
		units++;
	}
	snprintf(t.s, sizeof(t.s), "%.*f %s",
	         v < 9.995   ? 2
	         : v < 99.95 ? 1
	                     : 0,
	         v, *units);
	return t;
}

struct text text_bytes(uint64_t bytes)
{
	static const char *const units[] = { "KiB", "MiB", "GiB", "TiB", NULL };
	struct text t;

	if (bytes >= 1024)
		return text_scaled(bytes / 1024, 1024, units);
	snprintf(t.s, sizeof(t.s), "%u B", (unsigned int)bytes);
	return t;
}

struct text text_count(uint64_t n)
{
	static const char *const units[] = { "k", "M", "G", "T", NULL };
	struct text t;

	if (n >= EXACT_BELOW)
		return text_scaled(n / 1000, 1000, units);
	snprintf(t.s, sizeof(t.s), "%u", (unsigned int)n);
	return t;
}

struct text text_age(uint64_t ns)
{
	static const struct {
		uint64_t s;
		const char *name;
	} units[] = { { 172800, "d" }, { 7200, "h" }, { 120, "min" }, { 0, "s" } };
	static const uint64_t lengths[] = { 86400, 3600, 60, 1 };
	uint64_t s = ns / NS_PER_S;
	struct text t;
	int i = 0;

	while (s < units[i].s)
		i++;
	snprintf(t.s, sizeof(t.s), "%llu %s", (unsigned long long)(s / lengths[i]),
	         units[i].name);
	return t;
}

struct text text_percent(uint64_t part, uint64_t whole)
{
	struct text t = { "-" };

	if (whole)
		snprintf(t.s, sizeof(t.s), "%.1f",
		         100.0 * (double)part / (double)whole);
	return t;
}

static struct winsize text_terminal(void)
{
	struct winsize size = { 0 };

	if (!isatty(STDOUT_FILENO))
		return size;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 ||
	    size.ws_row == 0)
		size = (struct winsize){ .ws_col = 80, .ws_row = 24 };
	return size;
}

unsigned int text_columns(void)
{
	return text_terminal().ws_col;
}

unsigned int text_rows(void)
{
	return text_terminal().ws_row;
}

int text_is_utf8(void)
{
	return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

static char *text_escape_to(const char *s, bool ascii)
{
	char *whole = malloc(strlen(s) * 4 + 1), *to = whole;
	unsigned int n;

	if (!whole)
		return NULL;
	*to = '\0';
	for (; *s; s += n) {
		n = escape_next(s, ascii, to);
		to += strlen(to);
	}
	return whole;
}

char *text_escape(const char *s)
{
	return text_escape_to(s, false);
}

/* The first byte of a character from s[at] on. */
static size_t text_character(const char *s, size_t at)
{
	while (((unsigned char)s[at] & 0xc0) == 0x80)
		at++;
	return at;
}

void text_print(const char *s, size_t width)
{
	char *whole = text_escape_to(s, text_columns() > 0 && !text_is_utf8());
	size_t n = whole ? strlen(whole) : 0, gap = strlen(GAP), head, tail;

	if (width == 0 || n <= width || width < 2 * gap) {
		fputs(whole ? whole : "?", stdout);
		free(whole);
		return;
	}
	/* The end says most: the file's name. */
	head = text_character(whole, (width - gap) / 3);
	tail = text_character(whole, n - (width - gap - head));
	printf("%.*s%s%s", (int)head, whole, GAP, whole + tail);
	free(whole);
}

json_t *text_json(const char *s)
{
	char *whole = text_escape(s);
	json_t *json = whole ? json_string(whole) : NULL;

	free(whole);
	return json;
}

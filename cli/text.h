/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Numbers, times and paths as people like to read them; JSON has them exactly. */
#ifndef LODIC_CLI_TEXT_H
#define LODIC_CLI_TEXT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* Room for the longest of these texts. */
struct text {
	char s[24];
};

/* 4096 -> "4.0 KiB". */
struct text text_bytes(uint64_t bytes);
/* 99999 -> "99999", 1234567 -> "1.23 M". */
struct text text_count(uint64_t n);
/* A time in its largest unit: "3 s", "12 min". */
struct text text_age(uint64_t ns);
/* 1 of 3 -> "33.3"; nothing of nothing -> "-". */
struct text text_percent(uint64_t part, uint64_t whole);

/* How many columns and rows the terminal at stdout has; 0: it is no terminal. */
unsigned int text_columns(void);
unsigned int text_rows(void);
/* Whether it shows UTF-8; call setlocale(LC_CTYPE, "") before. */
int text_is_utf8(void);

/* Prints a string of a stranger, as lib/escape.h says. With width, a longer one loses its
 * middle. */
void text_print(const char *s, size_t width);
/* The same text as memory to free; NULL: there is none. */
char *text_escape(const char *s);
/* The same text for JSON. */
json_t *text_json(const char *s);

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* lib/escape.h: what a name becomes, and how it comes back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "host/random.h"
#include "lib/escape.h"

#define NAMES 20000u
#define NAME_BYTES 24u

static u64 seed = 1;

static void escape_all(const char *s, bool ascii, char *to)
{
	*to = '\0';
	for (unsigned int n; *s; s += n) {
		n = escape_next(s, ascii, to);
		assert_in_range(n, 1, 4);
		to += strlen(to);
	}
}

static void text_is(const char *name, const char *expected)
{
	char text[256];

	escape_all(name, false, text);
	assert_string_equal(text, expected);
}

static void next_what_shows_stays_all_else_is_bytes(void **state)
{
	text_is("a b~\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\xb1", /* e', euro, a cat */
	        "a b~\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\xb1");
	text_is("\n\x1b[2J\x7f", "\\x0a\\x1b[2J\\x7f");
	text_is("\\x0a", "\\\\x0a");
	text_is("\xc2\x9b\xc2\xa0", "\\xc2\\x9b\xc2\xa0");                 /* C1; a blank */
	text_is("\xe2\x80\xae\xe2\x81\xa6", "\\xe2\\x80\\xae\\xe2\\x81\\xa6"); /* turns text */
	text_is("\xff\xc0\xaf\xed\xa0\x80\xf4\x90\x80\x80",
	        "\\xff\\xc0\\xaf\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80");
	/* A character that the end cuts off, and one that another begins in. */
	text_is("\xf0\x9f\x90", "\\xf0\\x9f\\x90");
	text_is("\xe2\x82\xc3\xa9", "\\xe2\\x82\xc3\xa9");
	(void)state;
}

/* What printf '%b' makes of it. */
static void give_back(const char *text, char *to)
{
	unsigned int byte;

	for (; *text; to++) {
		if (*text != '\\') {
			*to = *text++;
		} else if (text[1] == '\\') {
			*to = '\\';
			text += 2;
		} else {
			assert_int_equal(sscanf(text, "\\x%2x", &byte), 1);
			*to = (char)byte;
			text += 4;
		}
	}
	*to = '\0';
}

static void next_any_name_comes_back(void **state)
{
	static const char bytes[] = "a\\x\n\x1b\x80\x9f\xbf\xc2\xc3\xe2\xed\xf0\xf4\xff";
	char name[NAME_BYTES + 1], text[NAME_BYTES * 4 + ESCAPE_BYTES], back[sizeof(text)];
	u64 random = seed;

	for (u32 i = 0; i < NAMES; i++) {
		u32 n = (u32)(random_next(&random) % NAME_BYTES);

		for (u32 k = 0; k < n; k++)
			name[k] = bytes[random_next(&random) % (sizeof(bytes) - 1)];
		name[n] = '\0';
		for (u32 ascii = 0; ascii < 2; ascii++) {
			escape_all(name, ascii, text);
			give_back(text, back);
			assert_string_equal(back, name);
			for (const char *c = text; *c; c++)
				assert_true((unsigned char)*c >= ' ' && *c != 0x7f &&
				            (!ascii || (unsigned char)*c < 0x80));
		}
	}
	(void)state;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(next_what_shows_stays_all_else_is_bytes),
		cmocka_unit_test(next_any_name_comes_back),
	};

	if (argc == 3 && strcmp(argv[1], "--seed") == 0)
		seed = strtoull(argv[2], NULL, 10);
	print_message("seed=%llu\n", (unsigned long long)seed);
	return cmocka_run_group_tests_name("escape", tests, NULL, NULL);
}

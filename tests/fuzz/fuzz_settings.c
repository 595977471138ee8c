/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * This program reads lodic.conf files that nobody would write, and settings that a service leaves.
 * Each file is made of lines that are right, of lines that are nearly right, and of rubbish. The
 * reader must take it, or say in one sentence which line is wrong. What a service was told by
 * options it must leave in such a form that its successor reads the same.
 *
 * Each execution has random numbers of its own, so `--from N --executions 1` repeats one.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/settings.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/cache_fixture.h"

#define MOST_LINES 12u
#define MOST_TEXT 9000u
#define LONG_TEXT 5100u /* longer than a line may be */
/* One in so many. */
#define BREAK 3u
#define LONG 60u
#define LEAVE 4u

static struct {
	u64 random;
	char path[FIXTURE_PATH_BYTES];
	char socket[FIXTURE_PATH_BYTES];
	char text[MOST_TEXT + LONG_TEXT];
	u64 bytes;
	int fd;
	u64 taken, refused, left;
} fuzz;

static u64 below(u64 n)
{
	return random_below(&fuzz.random, n);
}

static bool one_in(u64 n)
{
	return below(n) == 0;
}

static void text_add(const char *bytes, u64 n)
{
	if (fuzz.bytes + n > sizeof(fuzz.text))
		n = sizeof(fuzz.text) - fuzz.bytes;
	memcpy(fuzz.text + fuzz.bytes, bytes, n);
	fuzz.bytes += n;
}

static void text_say(const char *text)
{
	text_add(text, strlen(text));
}

/* Each fits some setting, or nearly. */
static const char *const values[] = {
	"64M",
	"1G",
	"32K",
	"31K",
	"8T",
	"7T",
	"0",
	"lodic",
	"atomic",
	"frozen",
	"hazard",
	"auto",
	"light",
	"lock",
	"off",
	"kloc",
	"nimble++",
	"none",
	" kloc",
	"yes",
	"no",
	"1",
	"16",
	"1024",
	"4294967295",
	"4294967296",
	"18446744073709551615",
	"18446744073709551616",
	"0.0159",
	"1.5",
	"1000000000",
	"-1",
	"0x10",
	"/data/*.db",
	"/a b/[c-",
	"/proc/pressure/memory",
	"/tmp/s.sock",
	"~/x",
	"",
	" ",
	"64M # no",
	"\"64M\"",
	"/\xff\xfe",
	"/a\\",
};

#define NR_VALUES (sizeof(values) / sizeof(*values))

/* A value for any setting: most of them fit some setting. Returns its length. */
static u64 value_make(char to[LONG_TEXT + 1])
{
	u64 n = below(3 * NR_VALUES);

	if (one_in(LONG)) {
		n = below(LONG_TEXT) + 1;
		memset(to, 'x', n);
		to[0] = '/';
	} else if (n < NR_VALUES) {
		strcpy(to, values[n]);
		return strlen(to);
	} else if (one_in(2)) {
		return (u64)sprintf(to, "%llu%s",
		                    (unsigned long long)(random_next(&fuzz.random) >>
		                                         below(64)),
		                    one_in(2)   ? ""
		                    : one_in(2) ? "M"
		                                : "K");
	} else {
		n = below(24);
		for (u64 i = 0; i < n; i++)
			to[i] = (char)(one_in(3) ? below(256) : ' ' + below(95));
		if (n > 0 && one_in(2))
			to[0] = '/';
	}
	to[n] = '\0';
	return n;
}

static void line_make(void)
{
	static const char *const odd[] = { "#",         "# a comment", "=",
		                           "key = 1",   "[section]",   "memory",
		                           "memory = ", "= 64M",       "\t \r",
		                           "" };
	char value[LONG_TEXT + 1];
	u64 n;

	if (one_in(8)) {
		text_say(odd[below(sizeof(odd) / sizeof(*odd))]);
	} else {
		text_say(settings_name((enum setting)below(NR_SETTINGS)));
		text_say(one_in(8) ? "=" : one_in(8) ? "\t =\v" : " = ");
		n = value_make(value);
		text_add(value, n);
	}
	if (!one_in(40))
		text_say(one_in(20) ? "\r\n" : "\n");
}

/* Changes, drops or doubles some bytes of what there is. */
static void text_break(void)
{
	u64 at, n;

	for (u64 left = below(4) + 1; left > 0 && fuzz.bytes > 0; left--) {
		at = below(fuzz.bytes);
		n = below(fuzz.bytes - at) + 1;
		switch (below(4)) {
		case 0: fuzz.text[at] = (char)below(256); break;
		case 1: fuzz.text[at] = '\0'; break;
		case 2:
			memmove(fuzz.text + at, fuzz.text + at + n,
			        fuzz.bytes - at - n);
			fuzz.bytes -= n;
			break;
		default: text_add(fuzz.text + at, n < 200 ? n : 200); break;
		}
	}
}

/* One sentence, whole, and on one line unless the file's own bytes broke it. */
static void require_why(const struct settings *s)
{
	size_t n = strnlen(s->why, sizeof(s->why));

	REQUIRE(n > 10 && n < sizeof(s->why), "why: %zu bytes", n);
}

static void require_valid(const struct settings *s)
{
	u64 cache, holds;
	struct settings copy = { 0 };

	REQUIRE(strnlen(s->socket, sizeof(s->socket)) < sizeof(s->socket), "socket");
	REQUIRE(strnlen(s->pressure, sizeof(s->pressure)) < sizeof(s->pressure),
	        "pressure");
	REQUIRE(settings_scheme_name(s->scheme), "scheme %u", s->scheme);
	REQUIRE(settings_barrier_name(s->barrier), "barrier %u", s->barrier);
	REQUIRE(settings_copy(&copy, s) == 0, "not copied");
	for (enum setting i = 0; i < NR_SETTINGS; i++)
		REQUIRE(settings_equal(&copy, s, i), "%s", settings_name(i));
	if (settings_split(&copy, &cache, &holds) != 0)
		require_why(&copy);
	settings_free(&copy);
}

static void file_write(void)
{
	REQUIRE(ftruncate(fuzz.fd, 0) == 0 && pwrite(fuzz.fd, fuzz.text, fuzz.bytes,
	                                             0) == (ssize_t)fuzz.bytes,
	        "%s", strerror(errno));
}

static void read_one(void)
{
	struct settings s = { 0 };
	int err;

	fuzz.bytes = 0;
	for (u64 nr = below(MOST_LINES); nr > 0 && fuzz.bytes < MOST_TEXT; nr--)
		line_make();
	if (one_in(BREAK))
		text_break();
	file_write();
	err = settings_read_file(&s, fuzz.path, SETTINGS_SYSTEM);
	if (err) {
		REQUIRE(err == -EINVAL || err == -ENAMETOOLONG, "%d", err);
		require_why(&s);
		/* The file, and which line: the reader says both first. */
		REQUIRE(strncmp(s.why, fuzz.path, strlen(fuzz.path)) == 0, "%s", s.why);
	}
	require_valid(&s);
	settings_free(&s);
	fuzz.taken += !err;
	fuzz.refused += err != 0;
}

/* What options have said, and what the successor reads of it. */
static void leave_one(void)
{
	struct settings told = { 0 }, read = { 0 };
	char value[LONG_TEXT + 1];

	strcpy(told.socket, fuzz.socket);
	strcpy(read.socket, fuzz.socket);
	for (u64 nr = below(MOST_LINES); nr > 0; nr--) {
		value_make(value);
		settings_set(&told,
		             (enum setting)(SETTING_MEMORY + below(NR_SETTINGS - 1)),
		             value, SETTINGS_OPTION);
	}
	REQUIRE(settings_leave(&told) == 0, "%s", told.why);
	REQUIRE(settings_take_left(&read) == 0, "%s", read.why);
	for (enum setting i = 0; i < NR_SETTINGS; i++)
		REQUIRE(!settings_is_left(i) || settings_equal(&told, &read, i),
		        "%s reads back as another value", settings_name(i));
	settings_free(&told);
	settings_free(&read);
	fuzz.left++;
}

int main(int argc, char **argv)
{
	fuzz_begin(argc, argv, 20000);
	fixture_path(fuzz.path, "lodic.conf");
	fixture_path(fuzz.socket, "s");
	fuzz.fd = open(fuzz.path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	REQUIRE(fuzz.fd >= 0 && fchmod(fuzz.fd, 0600) == 0, "%s", strerror(errno));
	while (fuzz_next(&fuzz.random)) {
		if (one_in(LEAVE))
			leave_one();
		else
			read_one();
	}
	close(fuzz.fd);
	fuzz_end(
		"%llu files taken, %llu refused with a sentence, %llu left and read back",
		(unsigned long long)fuzz.taken, (unsigned long long)fuzz.refused,
		(unsigned long long)fuzz.left);
	return 0;
}

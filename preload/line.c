/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See line.h. */
#define _GNU_SOURCE
#include "preload/line.h"

#include <errno.h>
#include <string.h>

#include "lib/escape.h"
#include "lib/port/guest.h"
#include "preload/own.h"
#include "preload/shim.h"

#define READER_MS 500 /* that a line waits for its reader; our choice */

void line_start(void)
{
	if (port_look(LINE_STDERR, &shim.line.first_stderr) != 0)
		shim.line.first_stderr.nr_names = 0;
	strncpy(shim.line.program, port_program_name(), LINE_NAME_BYTES - 1);
}

void line_put(const char *more)
{
	size_t n = strlen(more);

	if (n > sizeof(shim.line.text) - 1 - shim.line.text_n)
		n = sizeof(shim.line.text) - 1 - shim.line.text_n;
	memcpy(shim.line.text + shim.line.text_n, more, n);
	shim.line.text_n += n;
}

void line_put_number(u64 n)
{
	char digits[24];
	char *p = digits + sizeof(digits) - 1;

	*p = '\0';
	do
		*--p = (char)('0' + n % 10);
	while (n /= 10);
	line_put(p);
}

/* "12.3 MiB" */
void line_put_bytes(u64 bytes)
{
	static const char *const units[] = { " B", " KiB", " MiB", " GiB", " TiB" };
	u32 unit = 0;
	u64 tenths = 0;

	while (bytes >= 1024 && unit < 4) {
		tenths = bytes % 1024 * 10 / 1024;
		bytes /= 1024;
		unit++;
	}
	line_put_number(bytes);
	if (unit) {
		line_put(".");
		line_put_number(tenths);
	}
	line_put(units[unit]);
}

void line_put_name(const char *name, bool json)
{
	char one[ESCAPE_BYTES];

	while (*name) {
		name += escape_next(name, false, one);
		for (const char *c = one; *c; c++) {
			if (json && (*c == '"' || *c == '\\'))
				line_put("\\");
			line_put((char[2]){ *c, '\0' });
		}
	}
}

void line_put_member(const char *name, u64 n)
{
	line_put(",\"");
	line_put(name);
	line_put("\":");
	line_put_number(n);
}

void line_begin(const char *command, bool json)
{
	shim.line.text_n = 0;
	if (json) {
		line_put("{\"program\":\"");
		line_put_name(shim.line.program, true);
		line_put("\"");
		line_put_member("pid", (u64)port_process());
	} else {
		line_put(command);
		line_put(": ");
		line_put_name(shim.line.program, false);
		line_put("[");
		line_put_number((u64)port_process());
		line_put("]: ");
	}
}

/* Is descriptor 2 what it was? */
bool line_stderr_is_ours(void)
{
	const struct port_file *first = &shim.line.first_stderr;
	struct port_file is;

	return first->nr_names && port_look(LINE_STDERR, &is) == 0 &&
	       is.dev == first->dev && is.ino == first->ino &&
	       is.device == first->device;
}

/* May a write begin? It waits once for a reader that is slow; after that for none. A line is
 * shorter than what a pipe that is ready takes at once. */
static bool line_may_go(int fd)
{
	int ms = shim.line.nobody_reads ? 0 : READER_MS;

	if (port_wait(fd, PORT_OUTPUT, ms) != 0)
		return true; /* also if it failed: then the write says why */
	shim.line.nobody_reads = true;
	return false;
}

/* The user has asked for a file, and does not get it all: stderr says so, once. error is a
 * negative errno. */
static void line_failed(const char *path, int error)
{
	if (shim.line.said || !path[0] || !line_stderr_is_ours() ||
	    !line_may_go(LINE_STDERR))
		return;
	shim.line.said = true;
	shim.line.text_n = 0;
	line_put("lodic: ");
	line_put_name(shim.line.program, false);
	line_put("[");
	line_put_number((u64)port_process());
	line_put("]: the report in ");
	line_put_name(path, false);
	line_put(" is not complete: ");
	line_put(strerrordesc_np(-error));
	line_put("\n");
	port_put(LINE_STDERR, shim.line.text, shim.line.text_n);
}

/* Writes the line. 0, or as port_put(). */
static int line_write(int fd)
{
	size_t done = 0;
	int64_t n = 1;

	while (done < shim.line.text_n && n > 0) {
		n = port_put(fd, shim.line.text + done, shim.line.text_n - done);
		done += n > 0 ? (size_t)n : 0;
	}
	return n < 0 ? (int)n : 0;
}

/* Ends the line and writes it. All signals are blocked. The function takes away those that
 * its own write() brings (a broken pipe, a file at its limit): they are not meant for the
 * program. */
bool line_end(const char *path, int kept)
{
	unsigned int before, ours = 0;
	int fd = LINE_STDERR, error;
	bool goes;

	shim.line.text[shim.line.text_n++] = '\n';
	before = port_quiet_signals();
	if (own_is(kept))
		fd = kept;
	else if (path[0])
		fd = port_append(path);
	else if (!line_stderr_is_ours())
		return true;
	if (fd < 0) {
		line_failed(path, fd);
		return true;
	}
	goes = line_may_go(fd);
	error = goes ? line_write(fd) : 0;
	if (error == -EPIPE)
		ours = PORT_BROKEN_PIPE & ~before;
	if (error == -EFBIG)
		ours = PORT_FILE_LIMIT & ~before;
	if (error) {
		port_quiet_drop(ours);
		line_failed(path, error);
	}
	if (path[0] && fd != kept)
		port_shut(fd);
	return goes;
}

u64 line_of_status(const char *name)
{
	int64_t n = port_process_text("status", shim.line.status,
	                              sizeof(shim.line.status) - 1);
	u64 number = 0;
	const char *p;

	shim.line.status[n > 0 ? n : 0] = '\0';
	p = strstr(shim.line.status, name);
	if (!p)
		return LINE_UNKNOWN;
	for (p += strlen(name); *p == ' ' || *p == '\t'; p++)
		;
	for (; *p >= '0' && *p <= '9'; p++)
		number = number * 10 + (u64)(*p - '0');
	return number;
}

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Requests of public traces: sim/tier/trace.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/tier/trace.h"

#define LINE_ROOM 4096u
#define MAX_COLUMNS 64u
#define ORACLE_BYTES 24u
#define ORACLE_MOST_BYTES (1u << 30)

/* libCacheSim's oracleGeneral: 24 bytes little-endian, without gaps. Seconds (u32), object (u64),
 * its size (u32), when it is asked for next (i64). An object is a file, and all of it is read. */
int trace_parse_oracle(void *file, u64 *line, struct trace_request *ret_request,
                       const char **ret_why)
{
	u8 record[ORACLE_BYTES];
	size_t n = fread(record, 1, sizeof(record), file);
	u32 size;

	*ret_why = "cannot be read";
	if (n == 0)
		return ferror((FILE *)file) ? -EIO : 0;
	++*line;
	if (n != sizeof(record)) {
		*ret_why = "a record is cut off; the size is no multiple of 24";
		return -EINVAL;
	}
	memcpy(&ret_request->file, record + 4, sizeof(ret_request->file));
	memcpy(&size, record + 12, sizeof(size));
	if (size > ORACLE_MOST_BYTES) {
		*ret_why = "an object of more than 1 GiB: is it this format?";
		return -EINVAL;
	}
	ret_request->offset = 0;
	ret_request->bytes = size ? size : 1;
	ret_request->write = false;
	return 1;
}

/* The columns of Thesios that say what was touched. */
enum { FILENAME, FILE_OFFSET, OP_TYPE, REQUEST_BYTES, NR_WANTED };
static const char *const wanted[NR_WANTED] = { "filename", "file_offset", "op_type",
	                                       "request_io_size_bytes" };

/* Splits a line at its commas, in place. Returns how many cells, or MAX_COLUMNS + 1. */
static u32 line_split(char *text, char **ret_cells)
{
	u32 nr = 0;

	text[strcspn(text, "\r\n")] = '\0';
	while (text) {
		if (nr == MAX_COLUMNS)
			return MAX_COLUMNS + 1;
		ret_cells[nr++] = strsep(&text, ",");
	}
	return nr;
}

static int header_read(FILE *f, u32 *ret_columns, const char **ret_why)
{
	char text[LINE_ROOM], *cells[MAX_COLUMNS];
	u32 nr, i, j;

	*ret_why = "the first line does not name filename, file_offset, op_type and "
		   "request_io_size_bytes";
	if (!fgets(text, sizeof(text), f))
		return -EINVAL;
	nr = line_split(text, cells);
	for (i = 0; i < NR_WANTED; i++) {
		for (j = 0; j < nr && j < MAX_COLUMNS; j++)
			if (strcmp(cells[j], wanted[i]) == 0)
				break;
		if (j >= nr || nr > MAX_COLUMNS)
			return -EINVAL;
		ret_columns[i] = j;
	}
	return 0;
}

static int number_read(const char *cell, u64 *ret_number)
{
	char *end;

	errno = 0;
	*ret_number = strtoull(cell, &end, 10);
	return errno || end == cell || *end || *cell == '-' ? -EINVAL : 0;
}

/* FNV-1a of the name. Two names that collide are one file; among 10^6 files that is one chance in
 * 3 * 10^7. */
static u64 name_hash(const char *name)
{
	u64 h = 0xcbf29ce484222325u;

	for (; *name; name++)
		h = (h ^ (u8)*name) * 0x100000001b3u;
	return h;
}

/* A CSV file whose first line names its columns. */
int trace_parse_thesios(void *file, u64 *line, struct trace_request *ret_request,
                        const char **ret_why)
{
	static u32 columns[NR_WANTED]; /* one trace is read at a time */
	char text[LINE_ROOM], *cells[MAX_COLUMNS];
	u32 nr, i;

	if (*line == 0) {
		++*line;
		if (header_read(file, columns, ret_why) != 0)
			return -EINVAL;
	}
	*ret_why = "cannot be read";
	if (!fgets(text, sizeof(text), file))
		return ferror((FILE *)file) ? -EIO : 0;
	++*line;
	*ret_why = "a line that is cut off, too long, or has too few columns";
	if (!strchr(text, '\n') && !feof((FILE *)file))
		return -EINVAL;
	nr = line_split(text, cells);
	for (i = 0; i < NR_WANTED; i++)
		if (columns[i] >= nr)
			return -EINVAL;
	ret_request->file = name_hash(cells[columns[FILENAME]]);
	ret_request->write = strcmp(cells[columns[OP_TYPE]], "WRITE") == 0;
	*ret_why = "op_type is neither READ nor WRITE";
	if (!ret_request->write && strcmp(cells[columns[OP_TYPE]], "READ") != 0)
		return -EINVAL;
	*ret_why = "file_offset or request_io_size_bytes is no number";
	if (number_read(cells[columns[FILE_OFFSET]], &ret_request->offset) != 0 ||
	    number_read(cells[columns[REQUEST_BYTES]], &ret_request->bytes) != 0)
		return -EINVAL;
	if (ret_request->bytes == 0)
		ret_request->bytes = 1;
	return 1;
}

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Tables for people. Contract: bench/measure/table.h. */
#include "bench/measure/table.h"

#include <stdarg.h>
#include <string.h>

/* Which column the next cell of the last row is. */
static unsigned int table_next_column(const struct table *t)
{
	unsigned int c = 0;

	while (c < TABLE_MAX_COLUMNS && t->cells[t->nr_rows - 1][c][0] != '\0')
		c++;
	return c;
}

void table_row(struct table *t)
{
	if (t->nr_rows < TABLE_MAX_ROWS)
		t->nr_rows++;
	memset(t->cells[t->nr_rows - 1], 0, sizeof(t->cells[0]));
}

void table_cell(struct table *t, const char *format, ...)
{
	unsigned int column = table_next_column(t);
	va_list args;
	char *cell;

	if (column == TABLE_MAX_COLUMNS)
		return;
	cell = t->cells[t->nr_rows - 1][column];
	va_start(args, format);
	vsnprintf(cell, TABLE_CELL_BYTES, format, args);
	va_end(args);
	if (cell[0] == '\0')
		strcpy(cell, " "); /* an empty cell is still a cell */
	if (column >= t->nr_columns)
		t->nr_columns = column + 1;
}

static size_t table_column_width(const struct table *t, unsigned int column)
{
	size_t width = 0;

	for (unsigned int r = 0; r < t->nr_rows; r++) {
		size_t n = strlen(t->cells[r][column]);

		if (n > width)
			width = n;
	}
	return width;
}

static void table_print_rule(const struct table *t, FILE *to)
{
	for (unsigned int c = 0; c < t->nr_columns; c++) {
		size_t n = table_column_width(t, c) + (c ? 2 : 0);

		while (n--)
			fputc('-', to);
	}
	fputc('\n', to);
}

void table_print(const struct table *t, FILE *to)
{
	for (unsigned int r = 0; r < t->nr_rows; r++) {
		for (unsigned int c = 0; c < t->nr_columns; c++) {
			int width = (int)table_column_width(t, c);

			fprintf(to, c ? "  %*s" : "%-*s", width, t->cells[r][c]);
		}
		fputc('\n', to);
		if (r == 0)
			table_print_rule(t, to);
	}
}

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A table for people: columns as wide as their widest cell, numbers to the right. */
#ifndef LODIC_BENCH_MEASURE_TABLE_H
#define LODIC_BENCH_MEASURE_TABLE_H

#include <stdio.h>

#define TABLE_MAX_COLUMNS 20
#define TABLE_MAX_ROWS 40
#define TABLE_CELL_BYTES 40

struct table {
	unsigned int nr_columns;
	unsigned int nr_rows; /* the first is the heading */
	char cells[TABLE_MAX_ROWS][TABLE_MAX_COLUMNS][TABLE_CELL_BYTES];
};

/* Begins a new row, which table_cell() fills from the left. Rows, cells and text that do
 * not fit are cut. */
void table_row(struct table *t);
__attribute__((format(printf, 2, 3))) void table_cell(struct table *t,
                                                      const char *format, ...);
void table_print(const struct table *t, FILE *to);

#endif

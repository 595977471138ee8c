/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A figure's rows: collecting them, and writing them for people, as JSON and as CSV. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/command.h"
#include "sim/figures/fig.h"

const char *fig_kind_name(enum fig_kind kind)
{
	switch (kind) {
	case FIG_PREDICTED: return "predicted";
	case FIG_FITTED: return "fitted";
	case FIG_EXPLAINED: return "explained";
	case FIG_CONSEQUENCE: return "consequence";
	case FIG_ARITHMETIC: return "arithmetic";
	}
	return "?";
}

int fig_add(struct fig_run *run, const char *panel, const char *series, double x,
            const char *unit, enum fig_kind kind, const struct fig_band *band,
            double paper)
{
	struct fig_table *table = run->table;
	struct fig_row *row;

	if (table->nr_rows == table->room) {
		size_t room = table->room ? 2 * table->room : 64;
		struct fig_row *rows = realloc(table->rows, room * sizeof(*rows));

		if (!rows)
			return -ENOMEM;
		table->rows = rows;
		table->room = room;
	}
	row = &table->rows[table->nr_rows++];
	snprintf(row->panel, sizeof(row->panel), "%s", panel);
	snprintf(row->series, sizeof(row->series), "%s", series);
	snprintf(row->unit, sizeof(row->unit), "%s", unit);
	row->x = x;
	row->kind = kind;
	row->band = *band;
	row->paper = paper;
	return 0;
}

int fig_add_value(struct fig_run *run, const char *panel, const char *series, double x,
                  const char *unit, enum fig_kind kind, double value, double paper)
{
	struct fig_band band = { value, value, value };

	return fig_add(run, panel, series, x, unit, kind, &band, paper);
}

int fig_measure(struct fig_run *run,
                int (*measure)(struct fig_run *run, const struct sim_machine *machine,
                               u64 seed, void *arg, double *ret_values),
                void *arg, u32 nr, struct fig_band *ret_bands)
{
	double values[FIG_MAX_VALUES];
	u32 machine, i;
	int err;

	for (machine = 0; machine < run->nr_machines; machine++) {
		command_progress(run->nr_measured++, 0);
		err = measure(run, &run->machines[machine], run->seed + machine, arg,
		              values);
		if (err)
			return err;
		for (i = 0; i < nr; i++) {
			struct fig_band *band = &ret_bands[i];

			if (machine == 0)
				*band = (struct fig_band){ values[i], values[i],
					                   values[i] };
			if (values[i] < band->low)
				band->low = values[i];
			if (values[i] > band->high)
				band->high = values[i];
		}
	}
	return 0;
}

static bool fig_shows(const struct fig_row *row)
{
	return command_shows_name(row->series);
}

static void fig_print_row(const struct fig_row *row)
{
	printf("%-28s %12g %11.4g %11.4g %11.4g  %-10s %-9s", row->series, row->x,
	       row->band.value, row->band.low, row->band.high, row->unit,
	       fig_kind_name(row->kind));
	if (row->paper >= 0)
		printf(" %9g", row->paper);
	printf("\n");
}

static bool fig_is_first_of_panel(const struct fig_table *table, size_t at)
{
	size_t i;

	for (i = 0; i < at; i++)
		if (strcmp(table->rows[i].panel, table->rows[at].panel) == 0)
			return false;
	return true;
}

void fig_print(const struct fig_heading *heading, const struct fig_table *table)
{
	const struct fig *fig = heading->fig;
	size_t i, j;

	printf("%s: %s (%s)\n", fig->name, fig->title, fig->paper);
	printf("%smodelled: %s\nnot modelled: %s\n",
	       fig->simulated ? "simulated; " : "", fig->modelled, fig->left_out);
	printf("topology %s, parameters %s %s, seed %llu, %u machines in the band\n",
	       heading->topology, heading->parameters, heading->hash,
	       (unsigned long long)heading->seed, heading->nr_machines);
	printf("x: %s\n", fig->x);
	for (i = 0; i < table->nr_rows; i++) {
		if (!fig_is_first_of_panel(table, i))
			continue;
		printf("\n%s\n%-28s %12s %11s %11s %11s  %-10s %-9s %9s\n",
		       table->rows[i].panel, "", "x", "value", "low", "high", "unit",
		       "kind", "paper");
		for (j = i; j < table->nr_rows; j++)
			if (strcmp(table->rows[j].panel, table->rows[i].panel) == 0 &&
			    fig_shows(&table->rows[j]))
				fig_print_row(&table->rows[j]);
	}
}

int fig_print_json(const struct fig_heading *heading, const struct fig_table *table)
{
	const struct fig *fig = heading->fig;
	json_t *results = json_array();
	json_t *all;
	size_t i;

	for (i = 0; i < table->nr_rows; i++) {
		const struct fig_row *row = &table->rows[i];
		json_t *one =
			json_pack("{s:s, s:s, s:f, s:s, s:f, s:f, s:f, s:s}", "panel",
		                  row->panel, "series", row->series, "x", row->x,
		                  "unit", row->unit, "value", row->band.value, "low",
		                  row->band.low, "high", row->band.high, "kind",
		                  fig_kind_name(row->kind));

		if (row->paper >= 0)
			json_object_set_new(one, "paper", json_real(row->paper));
		json_array_append_new(results, one);
	}
	all = json_pack(
		"{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:i, "
		"s:b, s:o}",
		"version", command_version(), "commit", command_commit(), "figure",
		fig->name, "paper", fig->paper, "title", fig->title, "x", fig->x,
		"modelled", fig->modelled, "not_modelled", fig->left_out, "topology",
		heading->topology, "parameters",
		*heading->hash ? heading->hash : "none", "parameter_file",
		heading->parameters, "seed", (json_int_t)heading->seed, "machines",
		(int)heading->nr_machines, "simulated", (int)fig->simulated, "results",
		results);
	if (!all)
		return -ENOMEM;
	/* command_begin() arranged that standard output is checked at exit. */
	json_dumpf(all, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
	printf("\n");
	json_decref(all);
	return 0;
}

int fig_write_csv(const struct fig_heading *heading, const struct fig_table *table,
                  const char *path)
{
	const struct fig *fig = heading->fig;
	FILE *f = fopen(path, "w");
	size_t i;

	if (!f)
		return -errno;
	fprintf(f, "# %s: %s\n# paper: %s\n# x: %s\n", fig->name, fig->title,
	        fig->paper, fig->x);
	fprintf(f, "# simulated: %s\n# modelled: %s\n# not modelled: %s\n",
	        fig->simulated ? "yes" : "no", fig->modelled, fig->left_out);
	fprintf(f,
	        "# topology: %s\n# parameters: %s%s%s\n# seed: %llu\n# machines: %u\n",
	        heading->topology, heading->parameters, *heading->hash ? " " : "",
	        heading->hash, (unsigned long long)heading->seed, heading->nr_machines);
	fprintf(f, "panel,series,x,unit,value,low,high,kind,paper," COMMAND_CSV_COLUMNS
	           "\n");
	for (i = 0; i < table->nr_rows; i++) {
		const struct fig_row *row = &table->rows[i];

		fprintf(f, "\"%s\",\"%s\",%g,%s,%.6g,%.6g,%.6g,%s,", row->panel,
		        row->series, row->x, row->unit, row->band.value, row->band.low,
		        row->band.high, fig_kind_name(row->kind));
		if (row->paper >= 0)
			fprintf(f, "%g", row->paper);
		fprintf(f, ",");
		command_csv_cells(f, heading->parameters, heading->hash, heading->seed);
		fprintf(f, "\n");
	}
	return command_csv_close(f);
}

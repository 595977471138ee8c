/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The papers' figures as commands of lodic-sim: what a figure is, the rows that it
 * gives, and the bands around them.
 *
 * A figure says in words what of the paper's experiment is modelled and what is not.
 * Both texts go into its CSV and into the caption. A row says where its number comes
 * from (enum fig_kind), so that a reader never takes a fitted number for a prediction.
 */
#ifndef LODIC_SIM_FIGURES_FIG_H
#define LODIC_SIM_FIGURES_FIG_H

#include "host/sim/sim.h"

#define FIG_NAME_BYTES 64u
#define FIG_MAX_VALUES 128u
/* For fig_row.paper: the paper's text gives no number. */
#define FIG_NO_PAPER (-1.0)

/* Where a row's number comes from. Only predicted rows are a test of the model. */
enum fig_kind {
	FIG_PREDICTED, /* simulated; no parameter was chosen by looking at the number */
	FIG_FITTED,    /* simulated; it, or what it is a ratio to, was fitted */
	FIG_EXPLAINED, /* simulated; a mechanism is in the model to explain this number */
	FIG_CONSEQUENCE, /* follows from something that the paper does not give */
	FIG_ARITHMETIC,  /* sizes and formulas: no clock is in it */
};

/* A value, and its lowest and highest over the machines of the sensitivity set. */
struct fig_band {
	double value, low, high;
};

struct fig_row {
	char panel[FIG_NAME_BYTES];
	char series[FIG_NAME_BYTES];
	char unit[FIG_NAME_BYTES];
	double x;
	struct fig_band band;
	enum fig_kind kind;
	double paper; /* what the paper's text says, or FIG_NO_PAPER */
};

struct fig_table {
	struct fig_row *rows;
	size_t nr_rows, room;
};

struct fig_options {
	const char *topology;   /* NULL: the figure's own */
	const char *parameters; /* NULL: the topology's own */
	const char *csv;        /* NULL: no file */
	u64 seed;
	bool json, no_band, quick;
};

/* What a running figure needs. */
struct fig_run {
	const struct fig_options *options;
	const struct sim_machine *machines; /* [0]: as the parameter file has it */
	u32 nr_machines;                    /* the rest: the sensitivity set */
	u64 seed;
	u32 nr_measured; /* for the line of progress */
	/* Of figures without a topology that have parameters all the same (fig_tier.h). */
	const char *parameters;
	char hash[64];
	struct fig_table *table;
};

struct fig {
	const char *name;  /* of the command and of the files */
	const char *paper; /* which figures or tables of which paper */
	const char *title;
	const char *x; /* what x is, with its unit */
	const char *modelled;
	const char *left_out;
	const char *topology;            /* NULL: no machine in it */
	bool simulated;                  /* false: draws or arithmetic only */
	bool few_machines;               /* long to run: see fig_main.c */
	bool one_machine;                /* longer: no band at all */
	int (*run)(struct fig_run *run); /* 0 or -errno */
};

extern const struct fig *const figs[];
extern const u32 nr_figs;

/* Runs measure() on every machine of the set; ret_bands[i] gets values[i] of the first
 * machine as its value. values: nr of them, at most FIG_MAX_VALUES. -errno as measure()
 * returned it. */
int fig_measure(struct fig_run *run,
                int (*measure)(struct fig_run *run, const struct sim_machine *machine,
                               u64 seed, void *arg, double *ret_values),
                void *arg, u32 nr, struct fig_band *ret_bands);

/* Adds a row. -ENOMEM. */
int fig_add(struct fig_run *run, const char *panel, const char *series, double x,
            const char *unit, enum fig_kind kind, const struct fig_band *band,
            double paper);

/* The same for a number that no machine can move. */
int fig_add_value(struct fig_run *run, const char *panel, const char *series, double x,
                  const char *unit, enum fig_kind kind, double value, double paper);

const char *fig_kind_name(enum fig_kind kind);

/* Writes what the figure gave: a table for people, JSON, or a CSV file. 0 or -errno. */
struct fig_heading {
	const struct fig *fig;
	const char *topology;   /* its name, or "none" */
	const char *parameters; /* the parameter file's name, or "none" */
	const char *hash;       /* of its text, or empty */
	u64 seed;
	u32 nr_machines;
};
void fig_print(const struct fig_heading *heading, const struct fig_table *table);
int fig_print_json(const struct fig_heading *heading, const struct fig_table *table);
int fig_write_csv(const struct fig_heading *heading, const struct fig_table *table,
                  const char *path);

/* The schemes that the papers compare, and those of this tree that stand in the kernel
 * series beside them. Figures of one question ask these, where all schemes would be too
 * many. A name that this tree does not have is skipped by count_scheme_find(). */
#define FIG_NR_COMPARED 6u
extern const char *const fig_compared[FIG_NR_COMPARED];

/* What one figure measures and the table of costs shows too. Each call measures in a
 * new world, on one machine. 0 or -errno. */
struct count_scheme;
/* Bytes for one more object, and with no object at all: CPUs of machine, as many users. */
int fig_memory_of(const struct sim_machine *machine, u64 seed,
                  const struct count_scheme *scheme, double *ret_per_object,
                  double *ret_fixed);
/* A query's time after nr_users have used the block and while none holds it. */
int fig_query_of(const struct sim_machine *machine, u64 seed,
                 const struct count_scheme *scheme, u32 nr_users, double *ret_ns);
/* From the users' last unref until a few blocks are frozen: the time of all, and of
 * one. -ETIME: not within the window. */
int fig_freeze_of(const struct sim_machine *machine, u64 seed,
                  const struct count_scheme *scheme, u32 nr_users, u32 nr_blocks,
                  double *ret_ns);
/* A drop of 1 GB that nr_users have read, in ms (sim/figures/fig_drop.c). paygo has two: its
 * independent misses overlap, or they do not. */
int fig_drop_of(const struct sim_machine *machine, u64 seed, u32 nr_users,
                double *ret_atomic, double *ret_paygo, double *ret_serial);

/* Random numbers from a state that the caller keeps. It begins as the seed. */
u64 fig_random(u64 *state);
double fig_random_unit(u64 *state);

#endif

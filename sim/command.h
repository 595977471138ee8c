/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the commands of lodic-sim share: exit statuses, numbers on the command line, and
 * a line of progress. Here too are the choice of schemes that tables show, and the
 * columns that say where a CSV's numbers come from.
 */
#ifndef LODIC_SIM_COMMAND_H
#define LODIC_SIM_COMMAND_H

#include <argp.h>
#include <stdio.h>

#include "core/count/count.h"

/* Exit statuses besides 0. */
#define COMMAND_FAILED 1 /* the run or its output failed */
#define COMMAND_USAGE \
	2 /* options, or a topology or parameter file that cannot be used */

/* main() calls it once, before any command. It arranges --version, the exit status of
 * wrong options, and a check at exit that standard output was written. It finds the
 * topologies and parameters that belong to this program. */
void command_begin(void);

const char *command_version(void);
const char *command_commit(void);

/* Prints "lodic-sim: what: why". err: -errno. Returns COMMAND_FAILED. */
int command_fail(const char *what, int err);

/* The number in arg, or argp_error(). what: "a seed", "a number of CPUs". */
u64 command_number(const char *arg, const char *what, u64 least, u64 most,
                   struct argp_state *state);

/* Does a table for people have rows of this name? It has if the name is no scheme's. JSON and
 * CSV have all. */
bool command_shows_name(const char *name);

/* The last columns of every CSV, and their cells. parameters: the file's name, or "none".
 * hash: of its text; may be empty. */
#define COMMAND_CSV_COLUMNS "version,commit,parameters,seed"
void command_csv_cells(FILE *f, const char *parameters, const char *hash, u64 seed);

/* Closes f. -EIO or -errno when something was not written. */
int command_csv_close(FILE *f);

/* Before a long run: can the CSV file be written? NULL: none is wanted. Makes an empty file
 * if there is none. Returns 0, or COMMAND_FAILED and has said why. */
int command_csv_check(const char *path);

/* Shows progress on stderr, if the command has run for some seconds. It says "done of nr points",
 * or only "done points" if nr is 0. On a terminal the line rewrites itself; else there is one every
 * few seconds. */
void command_progress(u32 done, u32 nr);

/* Clears the line on a terminal. */
void command_progress_end(void);

#endif

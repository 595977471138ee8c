/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* How the shim of `lodic run` prints its report (--report). The caller has the shim's lock. */
#ifndef LODIC_PRELOAD_RUN_PRINT_H
#define LODIC_PRELOAD_RUN_PRINT_H

#include <stdbool.h>

#include "host/host.h"
#include "preload/run_seen.h"

/* Files that a process prints as text, without --all. */
#define PRINT_FILES 10u

/* Where the lines go, and how. */
struct print_to {
	const char *path; /* "": stderr */
	int kept;         /* as line_end() has it */
	bool json, all;
};

/* All threads' counts of a file, added to the sums. */
void print_add(struct seen_counts *to, const struct seen *f);
/* Does it have a read or a mapping? */
bool print_has_any(const struct seen_counts *c);

/* A line that the program has read nothing, and why. false: it is lost, as for line_end(). */
bool print_note(const struct print_to *to, const char *note);
/* What the process has read (all), and then its files: those that have most bytes come first. */
void print_files(const struct print_to *to, const struct seen *files,
                 const struct seen_counts *all);
/* What so many processes have read together. */
void print_total(const struct print_to *to, u64 processes,
                 const struct seen_counts *c);

#endif

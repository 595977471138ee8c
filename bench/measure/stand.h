/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The file of a measurement, and the rig that holds it: what `lodic demo` and `lodic bench`
 * begin and end with. */
#ifndef LODIC_BENCH_MEASURE_STAND_H
#define LODIC_BENCH_MEASURE_STAND_H

#include <argp.h>

#include "bench/measure/corpus.h"
#include "bench/measure/rig.h"

struct stand {
	/* What the user asked for; NULL: the default. */
	const char *file;
	const char *workdir;
	uint64_t seed;
	const char *huge_pages; /* "auto", "off"; NULL: what `lodic serve` does */
	bool quiet;             /* print nothing to stdout */

	struct corpus corpus;
	struct rig rig;
};

/* The options --file, --workdir, --seed and --huge-pages, as a child of a command's parser.
 * Its input is a struct stand. */
extern const struct argp stand_argp;

/* Chooses the file, says which, and opens the rig. Copies the file when the file itself
 * cannot be cached, and says so. Returns an exit status; a failure has been said. The
 * caller must call stand_close() in any case. */
int stand_open(struct stand *s, unsigned int nr_readers);
void stand_close(struct stand *s);

/* The first half of stand_open(), for callers that need no rig. */
int stand_choose_file(struct stand *s);
/* Does error mean that a copy of the file could be cached? Then makes the copy and says
 * so: 0, and the caller tries again with s->corpus. Otherwise -errno. */
int stand_copy_file(struct stand *s, int error);

/* Says what rig->why tells, unless the user stopped us. Returns the exit status. */
int stand_complain(const struct stand *s, int error);

#endif

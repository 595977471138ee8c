/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A file, and a rig that holds it: what demo and bench begin and end with. */
#ifndef LODIC_MEASURE_STAND_H
#define LODIC_MEASURE_STAND_H

#include "measure/corpus.h"
#include "measure/rig.h"

struct stand {
	/* The user's wishes; NULL: the default. */
	const char *file;
	const char *workdir;
	uint64_t seed;
	bool quiet; /* says nothing on stdout */

	struct corpus corpus;
	struct rig rig;
};

/* Chooses the file and says which; copies it when no lease is to be had, and says so.
 * An exit status; what went wrong has been said. Call stand_close() in any case. */
int stand_open(struct stand *s, unsigned int nr_readers);
void stand_close(struct stand *s);

/* Only the file: where no rig is needed. */
int stand_choose_file(struct stand *s);
/* Does error mean that a copy of one's own could be cached? Then makes it and says so.
 * 0: try again with s->corpus. */
int stand_copy_file(struct stand *s, int error);

/* Says what rig->why tells, unless we were told to stop; returns the exit status. */
int stand_complain(const struct stand *s, int error);

#endif

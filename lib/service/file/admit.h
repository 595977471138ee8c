/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* How a file comes under a proof. */
#ifndef LODIC_LIB_SERVICE_FILE_ADMIT_H
#define LODIC_LIB_SERVICE_FILE_ADMIT_H

#include "host/host.h"

struct passed_file;

struct held_file;

struct files;

/* Begins to vouch for the file that p has found, under f->id. It says in *f which proof that is,
 * and the file's size under it. The errors are those of lodic_file_cached(); then nothing has
 * begun. */
int admit_prove(struct files *s, struct held_file *f, const struct passed_file *p);
/* Looks again at what may have changed since the worker's look: the size, and in a group who may
 * open the file. The service vouches for it by now. 0, or -errno: it must go at once. */
int admit_check(const struct files *s, const struct held_file *f,
                const struct passed_file *p);

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* How a file comes under a proof. */
#ifndef LODIC_LIB_SERVICE_FILE_ADMIT_H
#define LODIC_LIB_SERVICE_FILE_ADMIT_H

#include "lib/service/file/files.h"

/* Begins to vouch for the file that p has found, under f->id. It says in *f which proof that is,
 * and the file's size under it. The errors are those of lodic_file_cached(); then nothing has
 * begun. */
int admit_prove(struct service *s, struct held_file *f, const struct passed_file *p);
/* Looks again at what may have changed since the worker's look: the size, and in a group who may
 * open the file. The service vouches for it by now. 0, or -errno: it must go at once. */
int admit_check(const struct service *s, const struct held_file *f,
                const struct passed_file *p);

#endif

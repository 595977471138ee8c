/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Files that go early, so that their disk does not wait for the service. Their last name is gone,
 * or they are on another mount and no program has them open. Only the main thread calls these.
 */
#ifndef LODIC_LIB_SERVICE_FILE_NAMELESS_H
#define LODIC_LIB_SERVICE_FILE_NAMELESS_H

#include "lib/service/base/base.h"

struct files;

/* The main loop calls it now and then. */
void nameless_tick(struct files *s);
/* Lets a worker look at files whose attributes have changed: their last name may have gone. */
void nameless_hear(struct files *s);
/* Is there a file without a name that a program has open? Whether that one is still read shows
 * when the sweep comes round, so it hurries. */
bool nameless_hurries(const struct files *s);
/* What workers look at is for none of s's files. */
void nameless_forget(struct files *s);

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Which lines of a configuration would have more files cached. */
#ifndef LODIC_CLI_DOCTOR_PROMISE_H
#define LODIC_CLI_DOCTOR_PROMISE_H

#include "cli/doctor/doctor.h"

/* Chooses promises for the files that were refused and could be promised. */
void doctor_promise_choose(struct doctor *d);
/* Would a promise help, if the service says this of a file? */
bool doctor_promise_helps(int refused);
/* Writes a glob that matches this path alone. false: it is too long. */
bool doctor_promise_glob(const char *path, char glob[PATH_MAX]);

#endif

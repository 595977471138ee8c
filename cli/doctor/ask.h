/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Which files a service would cache: a private one, and the one that runs already. */
#ifndef LODIC_CLI_DOCTOR_ASK_H
#define LODIC_CLI_DOCTOR_ASK_H

#include "cli/doctor/doctor.h"

/* Asks a private service about each file; promised: about those alone that d->promise is of. */
struct own_cache;
void doctor_ask(struct doctor *d, struct own_cache *cache, bool promised);
/* Asks the service that `lodic run` would find. It starts none. */
void doctor_ask_service(struct doctor *d);

#endif

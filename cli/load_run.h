/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* How `lodic load` has the service load files, and shows how far it is. */
#ifndef LODIC_CLI_LOAD_RUN_H
#define LODIC_CLI_LOAD_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/load_list.h"
#include "lib/look.h"
#include "lodic/lodic.h"

/* Files below this come as blocks, also with --hold: a hold of them would be a private copy. */
#define LOAD_HOLD_LEAST (UINT64_C(1) << 20)
#define LOAD_PENDING 64u

struct load_run {
	struct lodic *lodic;
	struct lodic_context *context;
	struct look *look; /* at the same service */
	struct load_list *list;
	bool hold;
	uint64_t room;     /* bytes of blocks that the cache still has room for */
	uint64_t begun_ns; /* for the rate */
	uint64_t asked;    /* bytes, so far */
	/* Files whose last bytes the service has been asked for, and not yet waited for. */
	struct lodic_file *pending[LOAD_PENDING];
	unsigned int nr_pending;
	uint64_t pending_bytes;
};

/* Loads the files that are LOAD_NEW, and says of each what became of it. It returns when the
 * service has done what it could. -EINTR: cli_stopped. Other errors say why there
 * is no service any more. */
int load_run(struct load_run *run);

#endif

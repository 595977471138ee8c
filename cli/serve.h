/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the two halves of `lodic serve` share: its choices (serve.c), and its life (serve_run.c). */
#ifndef LODIC_CLI_SERVE_H
#define LODIC_CLI_SERVE_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/metrics.h"
#include "cli/notify.h"
#include "cli/serve_user.h"
#include "lib/service/service.h"
#include "lib/settings.h"

struct serve {
	struct settings settings;
	struct settings said; /* by options alone */
	struct settings
		told; /* by these and all other sources, when they were last read */
	/* Read anew by a worker; nobody else touches it meanwhile. */
	struct settings now;
	bool now_is_wrong;
	struct service_options options;
	bool for_group;
	uint32_t group;
	struct serve_user user; /* whom the service becomes */
	bool keep_lease;        /* with CAP_LEASE */
	bool escaped;           /* tried before it became that user */
	const char *record; /* of the policy; NULL: none */
	bool quiet;
	bool daemon;
	bool replace;
	bool started; /* a program has started this service */
	bool journal; /* stderr is the journal's */
	bool ready;   /* programs can connect */
	struct notify_passed passed;
	struct metrics metrics;
	int report; /* to tell how the start went; -1: nobody asks */
};

/* The log shall be as these settings have it. */
void serve_configure_log(const struct serve *s, const struct settings *settings);
/* Has options.events.say and all that follows call this file. */
void serve_connect(struct serve *s);
/* Tells the program that waits for it how the start went. */
void serve_report(struct serve *s, int error);
/* Runs the service to its end. 0 or -errno, after a message. */
int serve_run(struct serve *s);
/* The same in a child. The parent returns when programs can connect: an exit status. */
int serve_in_background(struct serve *s);

#endif

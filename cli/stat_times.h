/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* How long fills and misses took: for `lodic stat`, and for Prometheus. */
#ifndef LODIC_CLI_STAT_TIMES_H
#define LODIC_CLI_STAT_TIMES_H

#include <jansson.h>
#include <stdio.h>

#include "lib/look.h"

/* Asks the service. The errors are those of look_list(). */
int stat_times_ask(struct look *look, struct look_times ret_times[LOOK_NR_TIMES]);

/* A line for each kind. */
void stat_times_print(const struct look_times times[LOOK_NR_TIMES]);
/* Adds an object for each kind to o. */
void stat_times_json(json_t *o, const struct look_times times[LOOK_NR_TIMES]);
/* A histogram for each kind, in Prometheus' text format. */
void stat_times_expose(FILE *to, const struct look_times times[LOOK_NR_TIMES]);

#endif

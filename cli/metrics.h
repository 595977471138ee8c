/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a service has done, in a file that Prometheus' node_exporter reads (its textfile
 * collector). A thread of its own asks the service as `lodic stat` does. So a disk that does not
 * answer holds up that thread, and not the service.
 */
#ifndef LODIC_CLI_METRICS_H
#define LODIC_CLI_METRICS_H

#include <stdio.h>

#include "lodic/lodic.h"

struct metrics {
	const char *path;   /* NULL: nobody wants them */
	const char *socket; /* of the service */
	char why[256];      /* the last error; the thread's, once it runs */
};

/* Starts the thread, if there is a path. It writes the file at once, and then every five seconds;
 * each time by a rename. 0 or -errno; m->why then has a sentence. */
int metrics_start(struct metrics *m);

/* The numbers of `lodic stat` in Prometheus' text format (cli/stat.c). */
void stat_expose(FILE *to, const struct lodic_stat *s);

#endif

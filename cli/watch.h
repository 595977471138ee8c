/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* `lodic stat --watch`: rates, second by second. */
#ifndef LODIC_CLI_WATCH_H
#define LODIC_CLI_WATCH_H

#include <jansson.h>
#include <stdbool.h>

#include "cli/where.h"

/* Shows what the service does until Ctrl-C. On a terminal that is a screen which redraws
 * itself, else a line a second. With json it is an object a second: what to_json() makes, and
 * the rates. The watch waits for a service when there is none, and goes on with its successor.
 * Returns the exit status. */
int watch(struct where *w, bool json,
          json_t *(*to_json)(const struct lodic_stat *s, const char *socket));

#endif

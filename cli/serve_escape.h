/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* `lodic serve` with escape = yes: the service leaves the control group of the program that has
 * started it. */
#ifndef LODIC_CLI_SERVE_ESCAPE_H
#define LODIC_CLI_SERVE_ESCAPE_H

#include <stddef.h>

/* Moves this process to a control group "lodic", as near to the top as the kernel lets it make one.
 * Nobody removes that group: the next service uses it. 0, with the folder in ret_group ("" if there
 * is nothing to leave); or -errno, and the process stays where it is. */
int serve_escape(char *ret_group, size_t bytes);

#endif

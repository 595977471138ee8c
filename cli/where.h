/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Which service a command looks at, and what is said when that does not work. */
#ifndef LODIC_CLI_WHERE_H
#define LODIC_CLI_WHERE_H

#include <argp.h>

#include "lib/look.h"
#include "lib/settings.h"

struct where {
	const char *socket; /* NULL: what the settings say, or the default one */
	struct settings settings;
	char of_user[SETTINGS_SOCKET_BYTES];
};

/* The options --socket and --user, as a child of a command's own. Its input is a struct
 * where; the parent passes it in ARGP_KEY_INIT. */
extern const struct argp where_argp;

/* Finds the socket if none was named, and connects. 0 or -errno. ret_pid: the service's
 * process, 0: unknown. */
int where_try(struct where *w, struct look **ret_look, int *ret_pid);

/* Says what an error of lib/look.h means for the user. Returns the exit status. */
int where_complain(const struct where *w, int error, int pid);

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* --version. Contract: cli/cli.h. The build gives both words. */
#include <argp.h>

#include "cli/cli.h"

const char *cli_version(void)
{
	return LODIC_VERSION;
}

const char *cli_commit(void)
{
	return LODIC_COMMIT;
}

static const char *cli_version_of;

static void cli_print_version(FILE *to, struct argp_state *state)
{
	(void)state;
	fprintf(to, "%s %s (%s)\n", cli_version_of, cli_version(), cli_commit());
}

void cli_offer_version(const char *program)
{
	cli_version_of = program;
	argp_program_version_hook = cli_print_version;
}

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* `lodic-bench`: the program that `lodic bench` and `lodic demo` become. */
#include <stddef.h>

#include "bench/measure/rig.h"
#include "cli/command.h"

static const char doc[] =
	"Measure lodic. `lodic bench' and `lodic demo' run this program."
	"\v"
	"Commands:\n"
	"  demo    Read a large file through the cache, and compare.\n"
	"  bench   Measure the cache and the counters.\n";

int main(int argc, char **argv)
{
	static const struct command commands[] = {
		{ "demo", command_demo },
		{ "bench", command_bench },
		{ 0 },
	};
	static const struct command_choice choice = {
		.name = "lodic",
		.usage = "COMMAND [OPTION...]",
		.doc = doc,
		.noun = "command",
		.commands = commands,
	};

	rig_serve_by(NULL, LODIC_BINDIR_FROM_LIBEXEC);
	return command_main(&choice, argc, argv);
}

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* `lodic bench`: the list of its measurements. */
#include "bench/command/bench.h"
#include "cli/command.h"

static const char doc[] =
	"Measure the cache and the counters on this machine."
	"\v"
	"Measurements:\n"
	"  counter  Compare the ways to count references to a program's own objects.\n"
	"  pin      Compare the ways to pin and to read a block.\n"
	"  memory   Print the bytes that the cache's tables take for each frame, for\n"
	"           each context and for each mapped block.\n"
	"  service  Measure what the service's own work costs: to evict, to fill, to reap and to\n"
	"           open files.\n"
	"  tier     Measure how fast blocks move between tiers of memory, and what readers\n"
	"           notice.\n"
	"\n"
	"`lodic help bench pin' explains one of them.\n"
	"\n"
	"Examples:\n"
	"  lodic bench pin --access hot\n"
	"  lodic bench counter --json\n"
	"  lodic bench memory --json\n";

int command_bench(int argc, char **argv)
{
	static const struct command commands[] = {
		{ "counter", command_bench_counter },
		{ "pin", command_bench_pin },
		{ "memory", command_bench_memory },
		{ "service", command_bench_service },
		{ "tier", command_bench_tier },
		{ 0 },
	};
	static const struct command_choice choice = {
		.name = "lodic bench",
		.usage = "MEASUREMENT [OPTION...]",
		.doc = doc,
		.noun = "measurement",
		.commands = commands,
	};

	return command_choose(&choice, argc, argv);
}

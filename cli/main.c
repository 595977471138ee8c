/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* `lodic`: the list of its commands. */
#include <stddef.h>

#include "cli/command.h"

static const char doc[] =
	"Lodic is a page cache that processes share. This program runs the cache, shows "
	"what it does, and measures it."
	"\v"
	"Commands:\n"
	"  demo    Read a large file of this system through the cache, compare every\n"
	"          byte with the file, and compare the ways to read it.\n"
	"  serve   Run the cache's service. Programs that use liblodic start it by\n"
	"          themselves.\n"
	"  stat    Show what the running cache holds and what it has done.\n"
	"  files   Show which files it holds, and why it does not hold others.\n"
	"  who     Show which programs read through it.\n"
	"  load    Load files into it, before programs ask for them.\n"
	"  drop    Make it let files go.\n"
	"  resize  Give it another size.\n"
	"  stop    End it.\n"
	"  tier    Show what lies in fast and in slow memory, and move files.\n"
	"  bench   Measure what a pin, a read and the cache's tables cost here.\n"
	"  run     Run an unmodified program, and serve its reads from the cache.\n"
	"  map     Run a program, and map the files that it reads again and again.\n"
	"          This helps on a kernel with LODIC only.\n"
	"  doctor  Run a program without the cache, and say what it would gain by it.\n"
	"  help    Show this text. `lodic help COMMAND' explains one command.\n"
	"\n"
	"Exit status: 0 for success, 1 for a failure, 2 for wrong usage, 130 after\n"
	"Ctrl-C. `lodic run', `lodic map' and `lodic doctor' return the\n"
	"program's own status.\n"
	"\n"
	"Examples:\n"
	"  lodic demo\n"
	"  lodic serve --memory 1G --immutable '/srv/models/*'\n"
	"  lodic stat --watch\n"
	"  lodic files /srv/models/*\n"
	"  lodic load /srv/models\n"
	"  lodic drop --all && umount /srv\n"
	"  lodic run --report -- sqlite3 -readonly data.db 'select count(*) from t'\n"
	"  lodic map -- grep -c lodic notes.txt\n";

int main(int argc, char **argv)
{
	static const struct command commands[] = {
		{ "demo", command_demo },
		{ "serve", command_serve },
		{ "stat", command_stat },
		{ "files", command_files },
		{ "who", command_who },
		{ "load", command_load },
		{ "drop", command_drop },
		{ "resize", command_resize },
		{ "stop", command_stop },
		{ "tier", command_tier },
		{ "bench", command_bench },
		{ "run", command_run },
		{ "map", command_map },
		{ "doctor", command_doctor },
		{ 0 },
	};
	static const struct command_choice choice = {
		.name = "lodic",
		.usage = "COMMAND [OPTION...]",
		.doc = doc,
		.noun = "command",
		.commands = commands,
	};

	return command_main(&choice, argc, argv);
}

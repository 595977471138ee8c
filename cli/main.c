/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* `lodic`: the list of its commands. */
#include <stddef.h>

#include "cli/command.h"

static const char doc[] =
	"Lodic is a page cache that processes share. This program runs the cache, shows "
	"what it does, and measures it."
	"\v"
	"Commands:\n"
#define COMMAND(name, text) "  " text "\n"
#include "cli/command_list.h"
#undef COMMAND
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
#define COMMAND(name, text) { #name, command_##name },
#include "cli/command_list.h"
#undef COMMAND
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

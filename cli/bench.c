/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* `lodic bench` and `lodic demo`: another program has them, lodic-bench (bench/command/). */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/command.h"

/* Becomes lodic-bench, with the words as they stand behind `lodic'. Returns only if that fails. */
static int bench_become(char *name, int argc, char **argv)
{
	static char path[PATH_MAX], lodic[] = "lodic";
	char **words = calloc((size_t)argc + 2, sizeof(*words));
	int error = cli_find(LODIC_LIBEXECDIR_FROM_BIN, "lodic-bench", path, sizeof(path));

	if (!words)
		error = -ENOMEM;
	if (!error) {
		words[0] = lodic;
		words[1] = name;
		memcpy(words + 2, argv + 1, (size_t)(argc - 1) * sizeof(*words));
		execv(path, words);
		error = -errno;
	}
	free(words);
	if (error == -ENOENT)
		cli_error("`lodic %s' needs the program lodic-bench, which is not installed; "
		          "`make install' and the Debian package lodic install it",
		          name);
	else
		cli_error("cannot run %s: %s", path, strerror(-error));
	return CLI_FAILED;
}

int command_bench(int argc, char **argv)
{
	static char name[] = "bench";

	return bench_become(name, argc, argv);
}

int command_demo(int argc, char **argv)
{
	static char name[] = "demo";

	return bench_become(name, argc, argv);
}

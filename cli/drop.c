/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* `lodic drop`: makes the running cache let files go. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/command.h"
#include "cli/text.h"
#include "cli/where.h"
#include "lodic/lodic.h"

#define NS_PER_S UINT64_C(1000000000)
/* Reads that are under way hold a file open, and a worker may be closing it. Both end soon, or
 * a file system is in trouble. */
#define BUSY_NS (5 * NS_PER_S)
#define BUSY_POLL_NS 2000000

struct drop {
	struct where where;
	bool all;
	char **paths; /* NULL-ended */
};

static const char doc[] =
	"Make the running cache let files go, and close them. Programs go on: their reads "
	"come from the kernel. A file that a program still has open comes back when the program "
	"reads it again."
	"\v"
	"Examples:\n"
	"  lodic drop big.bin\n"
	"  lodic drop --all && umount /mnt\n";

static const struct argp_option option_list[] = {
	{ "all", 'a', NULL, 0, "Let every file go", 0 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct drop *d = state->input;

	(void)arg;
	switch (key) {
	case ARGP_KEY_INIT: state->child_inputs[0] = &d->where; return 0;
	case 'a': d->all = true; return 0;
	case ARGP_KEY_ARGS: d->paths = state->argv + state->next; return 0;
	case ARGP_KEY_END:
		if (d->all == (d->paths != NULL))
			argp_error(state, d->all ? "--all leaves no file to name"
			                         : "name a file, or say --all");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

/* Waits until the service has closed what it was still reading, and has freed the blocks. */
static int settle(struct look *look, struct look_dropped *total)
{
	const struct timespec pause = { .tv_nsec = BUSY_POLL_NS };
	uint64_t deadline = cli_now_ns() + BUSY_NS;
	int err;

	while (total->busy > 0 && !cli_stopped) {
		if (cli_now_ns() > deadline) {
			cli_error(
				"a file is still open: its file system does not answer");
			return 0;
		}
		nanosleep(&pause, NULL);
		err = look_drop(look, 0, LOOK_NOTHING, total);
		if (err)
			return err;
	}
	return 0;
}

static void report(const char *what, const struct look_dropped *d)
{
	text_print(what, 0);
	if (d->files == 0) {
		puts(": the cache holds no such file");
		return;
	}
	printf(": %llu %s (%s) let go\n", (unsigned long long)d->blocks,
	       d->blocks == 1 ? "block" : "blocks",
	       text_bytes(d->blocks * LODIC_BLOCK_BYTES).s);
}

/* What a user would otherwise be surprised by. */
static void remark(const struct look_dropped *d)
{
	if (d->open > 0)
		cli_note(
			"programs have %llu of these files open; the cache takes a file "
			"again when its program reads it",
			(unsigned long long)d->open);
	if (d->pinned > 0)
		cli_note("%llu blocks stay in memory until their readers unpin them",
		         (unsigned long long)d->pinned);
}

static int drop_paths(struct look *look, char **paths, struct look_dropped *total,
                      int *status)
{
	struct look_dropped one;
	struct stat st;
	int err = 0;

	for (; *paths && !err && !cli_stopped; paths++) {
		if (stat(*paths, &st) != 0) {
			cli_error("%s: %s", *paths, strerror(errno));
			*status = CLI_FAILED;
			continue;
		}
		memset(&one, 0, sizeof(one));
		err = look_drop(look, st.st_dev, st.st_ino, &one);
		if (!err)
			report(*paths, &one);
		total->open += one.open;
		total->busy += one.busy;
		total->pinned = one.pinned;
	}
	return err;
}

static int drop_all(struct look *look, struct look_dropped *total)
{
	char what[48];
	int err = look_drop(look, 0, LOOK_ALL, total);

	snprintf(what, sizeof(what), "%llu %s", (unsigned long long)total->files,
	         total->files == 1 ? "file" : "files");
	if (!err && total->files == 0)
		puts("the cache holds no file");
	else if (!err)
		report(what, total);
	return err;
}

int command_drop(int argc, char **argv)
{
	static const struct argp_child children[] = { { &where_argp, 0, NULL, 0 },
		                                      { 0 } };
	static const struct argp argp = { option_list, parse,    "FILE...\n--all",
		                          doc,         children, NULL,
		                          NULL };
	struct look_dropped total = { 0 };
	static struct drop d;
	struct look *look;
	int err, pid, status = CLI_OK;

	if (argp_parse(&argp, argc, argv, 0, NULL, &d) != 0)
		return CLI_USAGE;
	cli_catch_signals();
	err = where_try(&d.where, &look, &pid);
	if (err)
		return where_complain(&d.where, err, pid);
	err = d.all ? drop_all(look, &total)
	            : drop_paths(look, d.paths, &total, &status);
	if (!err)
		err = settle(look, &total);
	look_close(look);
	if (err)
		return where_complain(&d.where, err, pid);
	if (total.busy > 0)
		return cli_stopped ? CLI_STOPPED : CLI_FAILED;
	remark(&total);
	return status;
}

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A program that reads through a cache until its stdin ends, to be looked at.
 *
 *   look_reader SOCKET NR_ATTACHMENTS NR_PINS FILE...
 *
 * It has NR_ATTACHMENTS attachments with a context each. It opens the files through the first,
 * has them cached, reads them, and pins the first NR_PINS blocks of the first file. With
 * LOOK_HOLD=BYTES it holds so many of the first file, and a forked child keeps the view until
 * stdin ends. For each byte on stdin it reads them all again. Each time it says "read" on stdout.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lodic/lodic.h"

#define MAX_PINS 16
#define PIN_TRIES 1000

static void die_if(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "look_reader: %s: %s\n", what, strerror(-err));
	exit(1);
}

static void read_file(struct lodic_context *context, struct lodic_file *file)
{
	static char bytes[1 << 16];
	off_t at = 0;
	ssize_t n;

	while ((n = lodic_read(context, file, bytes, sizeof(bytes), at)) > 0)
		at += n;
	die_if((int)n, "lodic_read");
}

/* The block may have been evicted meanwhile. */
static void pin(struct lodic_context *context, struct lodic_file *file, int block,
                struct lodic_pin *ret_pin)
{
	off_t at = (off_t)block * LODIC_BLOCK_BYTES;
	int err;

	for (int tries = 0; (err = lodic_pin(context, file, at, ret_pin)); tries++)
		die_if(err == -EAGAIN && tries < PIN_TRIES
		               ? lodic_prefetch(context, file, at, 1, LODIC_WAIT)
		               : err,
		       "lodic_pin");
}

static void hold(struct lodic *lodic, struct lodic_file *file, const char *bytes)
{
	struct lodic_hold *held;
	char byte;

	die_if(lodic_hold(lodic, file, 0, strtoull(bytes, NULL, 0), LODIC_WAIT, &held),
	       "lodic_hold");
	if (fork() != 0)
		return;
	while (read(0, &byte, 1) > 0)
		;
	_exit(0);
}

int main(int argc, char **argv)
{
	struct lodic_options options = { .bytes = sizeof(options), .service = "" };
	int nr_files = argc - 4, nr_pins = 0;
	struct lodic_file **files = calloc((size_t)argc, sizeof(*files));
	struct lodic_context *context = NULL;
	struct lodic_pin pins[MAX_PINS];
	struct lodic *lodic = NULL;
	char byte;

	if (nr_files < 1 || !files || (nr_pins = atoi(argv[3])) > MAX_PINS)
		return 2;
	options.socket = argv[1];
	for (int i = atoi(argv[2]); i > 0; i--) {
		die_if(lodic_attach(&options, &lodic), "lodic_attach");
		die_if(lodic_context_open(lodic, &context), "lodic_context_open");
	}
	for (int i = 0; i < nr_files; i++) {
		int fd = open(argv[4 + i], O_RDONLY | O_CLOEXEC);
		int err = fd < 0 ? -errno : lodic_open(lodic, fd, &files[i]);

		die_if(err, argv[4 + i]);
		close(fd);
		err = lodic_prefetch(context, files[i], 0, 0, LODIC_WAIT);
		die_if(err == -ESTALE ? 0 : err, "lodic_prefetch");
	}
	if (getenv("LOOK_HOLD"))
		hold(lodic, files[0], getenv("LOOK_HOLD"));
	do {
		for (int i = 0; i < nr_files; i++)
			read_file(context, files[i]);
		for (int i = 0; i < nr_pins; i++)
			pin(context, files[0], i, &pins[i]);
		nr_pins = 0;
		puts("read");
		fflush(stdout);
	} while (read(STDIN_FILENO, &byte, 1) == 1);
	_exit(0); /* the end of a process gives everything back */
}

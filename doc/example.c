// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <lodic/lodic.h>

static unsigned long sum; // of all bytes
static unsigned long nr_pinned, nr_copied;

static void add(const unsigned char *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		sum += bytes[i];
}

// Adds up the file, block by block: in place where the cache has it, else from a copy.
static int add_file(struct lodic_context *context, struct lodic_file *file)
{
	unsigned char copy[LODIC_BLOCK_BYTES];
	struct lodic_pin pin;
	off_t at = 0;
	ssize_t n;
	int err;

	err = lodic_prefetch(context, file, 0, 0, LODIC_WAIT);
	if (err && err != -ESTALE) // -ESTALE: not cached; everything works all the same
		return err;
	for (;;) {
		err = lodic_pin(context, file, at, &pin);
		if (err == -ENODATA)
			return 0; // the end of the file
		if (err == 0) {
			n = (ssize_t)pin.bytes;
			add(pin.data, pin.bytes);
			lodic_unpin(context, &pin);
			nr_pinned++;
		} else if (err == -EAGAIN) {
			n = lodic_read(context, file, copy, sizeof(copy), at);
			if (n <= 0)
				return (int)n;
			add(copy, (size_t)n);
			nr_copied++;
		} else {
			return err;
		}
		at += n;
	}
}

static int fail(const char *what, int err)
{
	fprintf(stderr, "%s: %s\n", what, strerror(-err));
	return 1;
}

int main(int argc, char **argv)
{
	struct lodic_options options = { .bytes = sizeof(options) };
	struct lodic_context *context;
	struct lodic_file *file;
	struct lodic *lodic;
	int fd, err;

	if (argc < 2) {
		fprintf(stderr, "usage: %s FILE [SOCKET]\n", argv[0]);
		return 2;
	}
	if (argc > 2)
		options.socket = argv[2]; // a cache of one's own
	fd = open(argv[1], O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return fail(argv[1], -errno);
	err = lodic_attach(&options, &lodic); // starts the service if none is there
	if (err)
		return fail("lodic_attach", err);
	err = lodic_context_open(lodic, &context); // one for each thread
	if (err)
		return fail("lodic_context_open", err);
	err = lodic_open(lodic, fd, &file);
	if (err)
		return fail(argv[1], err);
	err = add_file(context, file);
	lodic_close(file);
	lodic_context_close(context);
	lodic_detach(lodic);
	close(fd);
	if (err)
		return fail(argv[1], err);
	printf("sum %lu; %lu blocks in place, %lu copied\n", sum, nr_pinned, nr_copied);
	return 0;
}

// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include <fcntl.h>
#include <stdio.h>

#include <lodic/lodic.h>

static unsigned long sum, nr_pinned, nr_copied;

static void add(const unsigned char *bytes, ssize_t n)
{
	for (ssize_t i = 0; i < n; i++)
		sum += bytes[i];
}

// Adds up the file's bytes: in place where the cache has them, else from a copy.
static int add_file(struct lodic_context *context, struct lodic_file *file)
{
	unsigned char copy[LODIC_BLOCK_BYTES];
	struct lodic_pin pin;
	ssize_t n;

	for (off_t at = 0;; at += n) {
		if (lodic_pin(context, file, at, &pin) == 0) {
			n = (ssize_t)pin.bytes;
			add(pin.data, n);
			lodic_unpin(context, &pin);
			nr_pinned++;
			continue;
		}
		// Not cached now, or the end: lodic_read() works in any case.
		n = lodic_read(context, file, copy, sizeof(copy), at);
		if (n <= 0)
			return (int)n;
		add(copy, n);
		nr_copied++;
	}
}

static int fail(const char *what, int err)
{
	fprintf(stderr, "%s: %s\n", what, lodic_strerror(err));
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
	if (fd < 0) {
		perror(argv[1]);
		return 1;
	}
	err = lodic_attach(&options, &lodic); // starts the service if none is there
	if (err)
		return fail("lodic_attach", err);
	err = lodic_context_open(lodic, &context); // one for each thread
	if (err)
		return fail("lodic_context_open", err);
	err = lodic_open(lodic, fd, &file);
	if (err)
		return fail(argv[1], err);
	// Without this the first pin of each block finds nothing.
	err = lodic_prefetch(context, file, 0, 0, LODIC_WAIT);
	if (err)
		fail("the file is not cached", lodic_file_cached(file));
	err = add_file(context, file);
	lodic_close(file);
	lodic_context_close(context);
	lodic_detach(lodic);
	if (err)
		return fail(argv[1], err);
	printf("sum %lu; %lu blocks in place, %lu copied\n", sum, nr_pinned, nr_copied);
	return 0;
}

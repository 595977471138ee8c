// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include <cstdio>
#include <exception>
#include <string_view>

#include <lodic/lodic.hpp>

static unsigned long sum, nr_pinned, nr_copied;

static void add(std::string_view bytes)
{
	for (unsigned char byte : bytes)
		sum += byte;
}

// Adds up the file's bytes: in place where the cache has them, else from a copy.
static void add_file(const lodicpp::context &context, const lodicpp::file &file)
{
	char copy[LODIC_BLOCK_BYTES];
	size_t n;

	for (off_t at = 0;; at += off_t(n)) {
		if (lodicpp::pin pin{ context, file, at }) {
			add(pin.text());
			n = pin.size();
			nr_pinned++;
			continue;
		}
		// Not cached now, or the end: read() works in any case.
		n = context.read(file, copy, sizeof(copy), at);
		if (n == 0)
			return;
		add({ copy, n });
		nr_copied++;
	}
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		fprintf(stderr, "usage: %s FILE [SOCKET]\n", argv[0]);
		return 2;
	}
	try {
		lodicpp::options options;
		std::error_code error;

		if (argc > 2)
			options.socket = argv[2]; // a cache of one's own
		lodicpp::cache cache(options); // starts the service if none is there
		lodicpp::context context(cache); // one for each thread
		lodicpp::file file(cache, argv[1]);

		// Without this the first pin of each block finds nothing.
		context.prefetch(file, 0, 0, LODIC_WAIT, error);
		if (error)
			fprintf(stderr, "the file is not cached: %s\n",
			        file.cached().message().c_str());
		add_file(context, file);
	} catch (const std::exception &error) {
		fprintf(stderr, "%s\n", error.what());
		return 1;
	}
	printf("sum %lu; %lu blocks in place, %lu copied\n", sum, nr_pinned, nr_copied);
}

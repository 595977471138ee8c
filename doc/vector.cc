// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <future>
#include <vector>

#include <lodic/lodic.hpp>

constexpr size_t DIM = 16, THREADS = 4, PIECE = 256; // vectors that are copied at a time

using vec = std::array<float, DIM>;

struct found {
	float distance;
	size_t row;
	bool operator<(const found &o) const
	{
		return distance < o.distance || (distance == o.distance && row < o.row);
	}
};

// The nearest of n vectors that lie in place, or in a buffer. The first one is row first.
static found look(const vec *at, size_t n, size_t first, const vec &query)
{
	found best{ HUGE_VALF, 0 };

	for (size_t i = 0; i < n; i++) {
		float sum = 0;

		for (size_t k = 0; k < DIM; k++)
			sum += (at[i][k] - query[k]) * (at[i][k] - query[k]);
		best = std::min(best, found{ sum, first + i });
	}
	return best;
}

// Where there is no room to hold the index, a thread copies its part of it, piece by piece.
static found look_copied(const lodicpp::cache &cache, const lodicpp::file &file, size_t from,
                         size_t to, const vec &query)
{
	lodicpp::context context(cache); // this thread's own
	std::vector<vec> piece(PIECE);
	found best{ HUGE_VALF, 0 };

	while (from < to) {
		size_t want = std::min(PIECE, to - from) * sizeof(vec);
		size_t got = context.read(file, piece.data(), want, off_t(from * sizeof(vec)));

		if (got < sizeof(vec))
			break;
		best = std::min(best, look(piece.data(), got / sizeof(vec), from, query));
		from += got / sizeof(vec);
	}
	return best;
}

static int search(const char *path, size_t nr, const char *socket)
{
	lodicpp::options options;
	std::error_code why_not;

	options.socket = socket;
	lodicpp::cache cache(options);
	lodicpp::file file(cache, path);
	lodicpp::hold hold(cache, file, 0, nr * sizeof(vec), why_not);
	const vec *held = hold ? reinterpret_cast<const vec *>(hold.data()) : nullptr;
	std::vector<std::future<found>> parts;
	found nearest{ HUGE_VALF, 0 };
	vec query;

	nr = hold ? std::min(nr, hold.size() / sizeof(vec)) : nr;
	query.fill(1);
	for (size_t t = 0; t < THREADS; t++)
		parts.push_back(std::async(std::launch::async, [&, t] {
			size_t from = nr * t / THREADS, to = nr * (t + 1) / THREADS;

			return held ? look(held + from, to - from, from, query) :
			              look_copied(cache, file, from, to, query);
		}));
	for (std::future<found> &part : parts)
		nearest = std::min(nearest, part.get());
	printf("row %zu, distance %g, %s\n", nearest.row, double(nearest.distance),
	       held ? "held" : why_not.message().c_str());
	return 0;
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr, "usage: %s INDEX VECTORS [SOCKET]\n", argv[0]);
		return 2;
	}
	try {
		return search(argv[1], strtoul(argv[2], nullptr, 10), argc > 3 ? argv[3] : "");
	} catch (const std::exception &error) {
		fprintf(stderr, "%s\n", error.what());
		return 1;
	}
}

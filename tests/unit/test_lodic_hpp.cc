/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* lodic/lodic.hpp: what ends with a scope, what errors become, what may be moved. */
#include <sys/mman.h>
#include <unistd.h>

#include <deque>
#include <thread>
#include <type_traits>

#include "tests/support/cases.hpp"

using lodicpp::cache;
using lodicpp::context;
using lodicpp::file;
using lodicpp::hold;
using lodicpp::hold_later;
using lodicpp::pin;
using lodicpp::view;

template <typename T>
constexpr bool moves = std::is_nothrow_move_constructible_v<T> &&
	std::is_nothrow_move_assignable_v<T> && !std::is_copy_constructible_v<T> &&
	!std::is_copy_assignable_v<T>;
template <typename T>
constexpr bool stays = !std::is_move_constructible_v<T> && !std::is_move_assignable_v<T> &&
	!std::is_copy_constructible_v<T>;
static_assert(moves<cache> && moves<file> && moves<context> && moves<hold> && moves<hold_later>);
static_assert(stays<pin> && stays<lodicpp::pins<2>>);
static_assert(std::is_trivially_copyable_v<view>);
static_assert(std::is_nothrow_destructible_v<pin> && std::is_nothrow_destructible_v<hold>);

constexpr size_t BLOCK = LODIC_BLOCK_BYTES;
constexpr size_t MIB = 1 << 20;

/* A cache, and a file of which all blocks are in it. */
struct bed {
	explicit bed(size_t bytes = 20 * BLOCK + 100) : bytes_of(cases::pattern(bytes, 1))
	{
		of = file(to, folder.make("data", bytes_of));
		cases::need_cached(of);
		by.prefetch(of, 0, 0, LODIC_WAIT);
	}

	/* The part of the file that a piece in place must be. */
	bool is(std::string_view piece, size_t at) const
	{
		return !piece.empty() && bytes_of.compare(at, piece.size(), piece) == 0;
	}

	const std::string bytes_of;
	cases::folder folder;
	cache to{ folder.options() };
	file of;
	context by{ to };
};

CASE(cache_without_service_says_why)
{
	cases::folder folder;
	lodicpp::options o = folder.options();
	std::error_code error;

	o.may_start = false;
	cache none(o, error);
	EXPECT(!none && error == std::errc::no_such_file_or_directory);
	EXPECT(error.message() == lodic_strerror(-ENOENT));
	try {
		cache throws(o);
		EXPECT(!"it throws");
	} catch (const std::system_error &e) {
		EXPECT(e.code() == error);
		EXPECT(std::string(e.what()).find(error.message()) != std::string::npos);
	}
	EXPECT(!cache(nullptr));
}

CASE(service_has_the_options_limits)
{
	cases::folder folder;
	lodicpp::options o = folder.options();

	o.hold_bytes = 5 * MIB;
	EXPECT(cache(o).stat().hold_limit == 5 * MIB);
}

CASE(file_that_is_not_there_says_why)
{
	bed b;
	std::error_code error;

	EXPECT(!file(b.to, b.folder.path("gone"), error));
	EXPECT(error == std::errc::no_such_file_or_directory);
	EXPECT(!file(b.to, -1, error) && error == std::errc::bad_file_descriptor);
	EXPECT(!file(b.to, b.folder.path("."), error) && error == std::errc::is_a_directory);
	EXPECT(file(b.to, b.folder.path("data"), error) && !error);
}

CASE(read_gives_the_bytes)
{
	bed b;
	std::string got(b.bytes_of.size() + 10, '\0');
	std::error_code error;

	EXPECT(b.by.read(b.of, got.data(), got.size(), 0) == b.bytes_of.size());
	EXPECT(b.is(std::string_view(got).substr(0, b.bytes_of.size()), 0));
	EXPECT(b.by.read(b.of, got.data(), 1, off_t(b.bytes_of.size())) == 0);
	EXPECT(b.by.read(b.of, got.data(), 1, -1, error) == 0);
	EXPECT(error == std::errc::invalid_argument);
	EXPECT(b.by.stat().hits > 0);
}

CASE(pin_ends_with_its_scope)
{
	bed b;

	{
		pin first(b.by, b.of, 10), second(b.by, b.of, off_t(BLOCK));
		pin last(b.by, b.of, 20 * BLOCK);

		EXPECT(first && b.is(first.text(), 10) && first.size() == BLOCK - 10);
		EXPECT(second && b.is(second.text(), BLOCK));
		EXPECT(last && last.size() == 100 && last.end() - last.begin() == 100);
		EXPECT(!first.why_not() && b.by.stat().pinned == 3);
		first.release();
		EXPECT(!first && b.by.stat().pinned == 2);
	}
	EXPECT(b.by.stat().pinned == 0);
	try {
		pin held(b.by, b.of, 0);

		EXPECT(b.by.stat().pinned == 1);
		throw 1;
	} catch (int) {
	}
	EXPECT(b.by.stat().pinned == 0);
	std::deque<pin> some;

	for (int i = 0; i < 4; i++)
		EXPECT(some.emplace_back(b.by, b.of, off_t(i) * BLOCK));
	EXPECT(b.by.stat().pinned == 4);
	some.clear();
	EXPECT(b.by.stat().pinned == 0);
}

CASE(pin_that_is_none_says_why)
{
	bed b;
	pin behind(b.by, b.of, off_t(b.bytes_of.size())), before(b.by, b.of, -1);

	EXPECT(!behind && behind.why_not() == std::error_code(ENODATA, lodicpp::category()));
	EXPECT(!before && before.why_not() == std::errc::invalid_argument);
	EXPECT(behind.size() == 0 && behind.begin() == behind.end());
}

CASE(pins_cover_a_border)
{
	bed b;

	{
		lodicpp::pins<3> both(b.by, b.of, off_t(BLOCK) - 5, 12);

		EXPECT(both && both.size() == 2 && both[0].size() == 5);
		EXPECT(b.is(both[0], BLOCK - 5) && b.is(both[1], BLOCK));
		EXPECT(b.by.stat().pinned == 2);
	}
	EXPECT(b.by.stat().pinned == 0);
	EXPECT(!lodicpp::pins<1>(b.by, b.of, off_t(b.bytes_of.size()), 1));
}

CASE(view_ends_when_the_file_changes)
{
	bed b;
	view of(b.by, b.of, 7);
	view copy = of;

	EXPECT(of && b.is(of.text(), 7) && of.valid() && copy.valid());
	std::ofstream writer(b.folder.path("data"), std::ios::binary | std::ios::app);
	EXPECT(!of.valid() && !copy.valid());
	view after(b.by, b.of, 7);
	EXPECT(!after.valid());
}

CASE(hold_outlives_all_else)
{
	auto b = std::make_unique<bed>(2 * MIB + 100);
	hold whole(b->to, b->of), part(b->to, b->of, off_t(MIB), 3);
	lodicpp::options again = b->folder.options();

	EXPECT(whole.size() == 2 * MIB + 100 && b->is(whole.text(), 0));
	EXPECT(part.size() == 3 && b->is(part.text(), MIB));
	EXPECT(b->to.stat().hold_used_bytes >= 2 * MIB);
	std::string bytes = b->bytes_of;
	cache other(again);

	b->by = context();
	b->of = file();
	b->to = cache(nullptr);
	std::thread([held = std::move(whole), &bytes] {
		if (held.text() != bytes)
			abort();
	}).join();
	EXPECT(!whole);
	EXPECT(cases::until([&] { return other.stat().hold_used_bytes == 0; }));
	b->folder.end_service(SIGKILL);
	EXPECT(bytes.compare(MIB, 3, part.text()) == 0);
}

CASE(hold_later_gives_the_hold)
{
	bed b(3 * MIB);
	hold_later later(b.to, b.of);

	EXPECT(later);
	EXPECT(cases::until([&] { return later.ready(); }) && later.event() == -1);
	hold done = later.get();

	EXPECT(!later && done && done.text() == b.bytes_of);
	EXPECT(hold_later(b.to, b.of, off_t(MIB)).get().text() == b.bytes_of.substr(MIB));
	std::error_code error;
	hold_later behind(b.to, b.of, off_t(3 * MIB), 0, error);
	EXPECT(!behind && error);
}

CASE(hold_has_a_descriptor)
{
	bed b(MIB);
	hold whole(b.to, b.of);
	off_t at = -1;
	int fd = whole.descriptor(at);
	void *m = mmap(nullptr, MIB, PROT_READ, MAP_SHARED, fd, at);

	close(fd);
	EXPECT(m != MAP_FAILED);
	whole = hold();
	bool same = memcmp(m, b.bytes_of.data(), MIB) == 0;

	munmap(m, MIB);
	EXPECT(same);
	std::error_code error;
	EXPECT(!hold(b.to, b.of, off_t(MIB), 1, error) && error);
}

CASE(what_is_assigned_over_ends)
{
	bed b;

	EXPECT(b.to.stat().contexts == 1);
	context second(b.to);
	EXPECT(b.to.stat().contexts == 2);
	second = context(b.to);
	EXPECT(cases::until([&] { return b.to.stat().contexts == 2; }));
	context third = std::move(second);
	EXPECT(!second && third && b.to.stat().contexts == 2);
	third = context();
	EXPECT(cases::until([&] { return b.to.stat().contexts == 1; }));
	hold first(b.to, b.of), next;
	next = std::move(first);
	EXPECT(!first && b.is(next.text(), 0));
}

CASE(threads_have_contexts_of_their_own)
{
	bed b;
	std::vector<std::thread> threads;
	std::vector<size_t> nr_pinned(4);

	for (size_t &nr : nr_pinned)
		threads.emplace_back([&b, &nr] {
			context own(b.to);

			for (size_t i = 0; i < 2000; i++) {
				pin p(own, b.of, off_t(i % 20) * BLOCK);

				nr += p && b.is(p.text(), i % 20 * BLOCK);
			}
		});
	for (std::thread &t : threads)
		t.join();
	for (size_t nr : nr_pinned)
		EXPECT(nr == 2000);
}

CASE(reads_go_on_when_the_service_is_killed)
{
	bed b;
	std::string got(BLOCK, '\0');

	b.folder.end_service(SIGKILL);
	/* Its last thread may still be ending. */
	EXPECT(cases::until([&] { return !pin(b.by, b.of, 0) && b.of.cached(); }));
	EXPECT(b.by.read(b.of, got.data(), BLOCK, off_t(BLOCK)) == BLOCK && b.is(got, BLOCK));
	std::error_code error;
	b.to.stat(error);
	EXPECT(error && error.category() == lodicpp::category());
	context next(b.to); // which starts another service
	EXPECT(cases::until([&] {
		return b.by.read(b.of, got.data(), BLOCK, 0) == BLOCK && pin(b.by, b.of, 0);
	}));
	EXPECT(b.is(got, 0));
}

int main(int argc, char **argv)
{
	return cases::run(argc, argv);
}

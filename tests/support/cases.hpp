/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What tests in C++ share: cases that may throw, which cmocka cannot run, and a folder with a
 * service. Each case prints a line as cmocka does. A case that fails throws, so its guards end.
 *
 *	CASE(read_past_end_gives_nothing)
 *	{
 *		EXPECT(f() == 0);
 *	}
 *
 *	int main(int argc, char **argv)
 *	{
 *		return cases::run(argc, argv);
 *	}
 */
#ifndef LODIC_TESTS_SUPPORT_CASES_HPP
#define LODIC_TESTS_SUPPORT_CASES_HPP

#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <lodic/lodic.hpp>

#define CASE(name) \
	static void name(); \
	static const cases::entry name##_entry(#name, name); \
	static void name()
#define EXPECT(condition) \
	do { \
		if (!(condition)) \
			throw cases::failed(__FILE__, __LINE__, #condition); \
	} while (0)

namespace cases
{

constexpr int SKIP = 77;
/* Long enough for a loaded machine under a sanitizer. */
constexpr int DEADLINE_SECONDS = 60;

struct failed : std::runtime_error {
	failed(const char *file, int line, const char *what)
		: std::runtime_error(std::string(file) + ":" + std::to_string(line) +
	                             ": not so: " + what)
	{
	}
};

/* The whole test cannot run here. */
struct skipped : std::runtime_error {
	using std::runtime_error::runtime_error;
};

struct entry {
	entry(const char *of_name, void (*of_body)()) : name(of_name), body(of_body)
	{
		all().push_back(this);
	}

	static std::vector<const entry *> &all()
	{
		static std::vector<const entry *> list;

		return list;
	}

	const char *name;
	void (*body)();
};

inline bool run_one(const entry &e)
{
	std::printf("[ RUN      ] %s\n", e.name);
	std::fflush(stdout);
	try {
		e.body();
	} catch (const skipped &) {
		throw;
	} catch (const std::exception &error) {
		std::printf("%s\n[  FAILED  ] %s\n", error.what(), e.name);
		return false;
	}
	std::printf("[       OK ] %s\n", e.name);
	return true;
}

/* With an argument only the cases that have it in their names. */
inline int run(int argc, char **argv)
{
	size_t nr_failed = 0;

	try {
		for (const entry *e : entry::all())
			if (argc < 2 || std::strstr(e->name, argv[1]))
				nr_failed += !run_one(*e);
	} catch (const skipped &why) {
		std::printf("%s\n", why.what());
		return SKIP;
	}
	std::printf("%zu failed\n", nr_failed);
	return nr_failed > 0;
}

/* Looks again and again, until it is so. */
template <typename Condition> bool until(Condition condition)
{
	const timespec pause = { 0, 1000000 };
	time_t end = time(nullptr) + DEADLINE_SECONDS;

	while (!condition()) {
		if (time(nullptr) > end)
			return false;
		nanosleep(&pause, nullptr);
	}
	return true;
}

/* Bytes of which no two blocks are alike. */
inline std::string pattern(size_t bytes, uint64_t seed)
{
	std::string text(bytes, '\0');

	for (size_t i = 0; i < bytes; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		text[i] = static_cast<char>(seed >> 56);
	}
	return text;
}

/* A folder for files and a socket. The service that a cache of it starts ends with it. */
class folder
{
public:
	folder()
	{
		std::string name = std::filesystem::temp_directory_path() / "lodic-test-XXXXXX";

		if (!mkdtemp(name.data()))
			throw std::runtime_error("no folder " + name);
		path_ = name;
	}

	~folder()
	{
		end_service(SIGTERM);
		std::error_code ignored;
		std::filesystem::remove_all(path_, ignored);
	}

	folder(const folder &) = delete;
	folder &operator=(const folder &) = delete;

	std::string path(const std::string &name) const
	{
		return path_ / name;
	}

	/* Makes a file, in one step. */
	std::string make(const std::string &name, const std::string &bytes) const
	{
		std::string fresh = path(name + ".new");

		std::ofstream(fresh, std::ios::binary) << bytes;
		std::filesystem::rename(fresh, path(name));
		return path(name);
	}

	std::string socket() const
	{
		return path("cache");
	}

	/* For a cache of 64 MiB, half of it for holds. */
	lodicpp::options options() const
	{
		const char *build = getenv("LODIC_BUILD");
		lodicpp::options o;

		o.socket = socket();
		o.service = std::string(build ? build : "build") + "/lodic";
		o.cache_bytes = 64 << 20;
		o.idle_exit_ms = 5000;
		return o;
	}

	/* Ends the service, if there is one, and waits until it has ended. */
	void end_service(int signal) const
	{
		lodicpp::options o = options();
		std::error_code error;

		o.may_start = false;
		lodicpp::cache cache(o, error);
		if (error)
			return;
		pid_t pid = static_cast<pid_t>(cache.stat(error).service_pid);

		if (error || kill(pid, signal) != 0)
			return;
		until([pid] { return has_ended(pid); });
	}

private:
	/* Nobody may have waited for it yet. */
	static bool has_ended(pid_t pid)
	{
		std::string line, path = "/proc/" + std::to_string(pid) + "/stat";

		if (!std::getline(std::ifstream(path), line))
			return true;
		size_t name_end = line.rfind(')');

		return name_end != line.npos && name_end + 2 < line.size() &&
		       line[name_end + 2] == 'Z';
	}

	std::filesystem::path path_;
};

/* Skips the test where the kernel gives no leases. */
inline void need_cached(const lodicpp::file &file)
{
	if (!until([&] { return file.cached() != std::errc::text_file_busy; }) || file.cached())
		throw skipped("no file is cached here: " + file.cached().message());
}

} // namespace cases

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Databases and files through liblodic-rocksdb.so: the same bytes, one memory, nothing left. */
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rocksdb/convenience.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "tests/rocksdb/beds.hpp"

using beds::bed;
using beds::database;
using beds::table;

constexpr size_t MIB = 1 << 20;
constexpr size_t BLOCK = LODIC_BLOCK_BYTES;

/* The bytes of the tables that have so many at least, and how many these are. */
static uint64_t bytes_of_tables(const bed &b, size_t least, uint64_t &ret_nr)
{
	std::vector<rocksdb::LiveFileMetaData> tables;
	uint64_t sum = 0;

	b.open(nullptr, false)->GetLiveFilesMetaData(&tables);
	ret_nr = 0;
	for (const auto &t : tables)
		if (t.size >= least) {
			sum += t.size;
			ret_nr++;
		}
	return sum;
}

static bool lies_in(const rocksdb::Slice &slice, const std::string &buffer)
{
	return slice.data() >= buffer.data() && slice.data() < buffer.data() + buffer.size();
}

CASE(database_is_the_same_by_copies_and_by_slices)
{
	for (auto compression : { rocksdb::kNoCompression, rocksdb::kSnappyCompression }) {
		bed b;
		uint64_t nr_tables, nr_all;

		b.make_database(compression);
		bytes_of_tables(b, 0, nr_all);
		bytes_of_tables(b, MIB, nr_tables);
		EXPECT(nr_tables >= 2 && nr_all > nr_tables);
		beds::expect_all(*b.open(nullptr, false));
		beds::expect_all(*b.open(b.fs, false));
		lodicpp::rocksdb_files files = b.files();
		uint64_t nr_copied = files.copied; /* RocksDB opens a table again now and then */
		EXPECT(nr_copied >= nr_all && files.held == 0 && files.passed == 0);
		EXPECT(b.cache.stat().hits > 0);
		beds::expect_all(*b.open(b.fs, true));
		files = b.files();
		EXPECT(files.copied == nr_copied && files.held >= nr_all && files.passed == 0);
		EXPECT(files.reads_passed == 0);
		EXPECT(b.cache.stat().holds_given >= nr_tables);
		/* A closed database has left nothing. */
		EXPECT(cases::until([&] { return b.cache.stat().hold_used_bytes == 0; }));
	}
}

CASE(file_is_the_same_at_any_place)
{
	bed b;
	std::string bytes = cases::pattern(3 * MIB + 77, 5);
	std::string path = b.folder.make("data", bytes);
	uint64_t random = 1;

	for (bool slices : { false, true }) {
		table file = b.open_file(path, slices);

		for (int i = 0; i < 3000; i++) {
			random = random * 6364136223846793005u + 1442695040888963407u;
			uint64_t at = (random >> 20) % (bytes.size() + 10);
			size_t n = i % 100 == 0 ? bytes.size() : (random >> 50) % 9000;

			EXPECT(beds::read(*file, at, n) ==
			       bytes.substr(std::min<size_t>(at, bytes.size()), n));
		}
		EXPECT(beds::read(*file, uint64_t{ 1 } << 40, 10).empty());
	}
	EXPECT(b.files().copied == 1 && b.files().held == 1);
}

CASE(slices_come_only_with_mmap_reads)
{
	bed b;
	std::string bytes = cases::pattern(MIB, 6), buffer(BLOCK, '\0');
	std::string path = b.folder.make("data", bytes);
	table copies = b.open_file(path, false), slices = b.open_file(path, true);
	rocksdb::Slice got;

	EXPECT(copies->Read(10, 1000, {}, &got, buffer.data(), nullptr).ok());
	EXPECT(lies_in(got, buffer) && got == rocksdb::Slice(bytes.data() + 10, 1000));
	EXPECT(slices->Read(10, 1000, {}, &got, nullptr, nullptr).ok());
	EXPECT(!lies_in(got, buffer) && got == rocksdb::Slice(bytes.data() + 10, 1000));
	char id[64], same[64];
	size_t n = copies->GetUniqueId(id, sizeof(id));
	EXPECT(n > 0 && slices->GetUniqueId(same, sizeof(same)) == n && memcmp(id, same, n) == 0);
}

CASE(slices_stand_until_their_file_is_closed)
{
	bed b;
	std::string bytes = cases::pattern(2 * MIB, 7);
	std::string path = b.folder.make("data", bytes);
	table file = b.open_file(path, true);
	rocksdb::Slice got;

	EXPECT(file->Read(0, bytes.size(), {}, &got, nullptr, nullptr).ok());
	EXPECT(b.cache.stat().hold_used_bytes >= 2 * MIB);
	std::ofstream(path, std::ios::binary) << "all is another"; /* truncates it */
	EXPECT(got == bytes);
	std::filesystem::remove(path);
	b.folder.end_service(SIGKILL);
	EXPECT(got == bytes && beds::read(*file, MIB, 100) == bytes.substr(MIB, 100));
	lodicpp::cache next(b.folder.options());
	lodicpp::file again(next, b.folder.make("data", bytes));

	file = b.open_file(path, true);
	EXPECT(b.files().held == 2 && next.stat().hold_used_bytes >= 2 * MIB);
	file.reset();
	EXPECT(cases::until([&] { return next.stat().hold_used_bytes == 0; }));
}

CASE(pinned_value_stands_while_the_database_is_open)
{
	bed b;

	b.make_database();
	database db = b.open(b.fs, true);
	rocksdb::PinnableSlice value;

	EXPECT(db->Get({}, db->DefaultColumnFamily(), beds::key_of(123), &value).ok());
	EXPECT(value.IsPinned() && value == beds::value_of(123));
	b.folder.end_service(SIGKILL);
	EXPECT(value == beds::value_of(123));
	value.Reset();
}

/* A reader in a process of its own. It says `ready`, and goes on when it is told to end. */
static int read_in_child(const char *socket, const char *path, bool slices)
{
	bed b(false);
	lodicpp::options options;
	std::error_code error;

	options.socket = socket;
	options.may_start = false;
	b.fs = lodicpp::rocksdb_file_system(options, error);
	std::filesystem::create_symlink(path, b.database_path());
	database db = b.open(b.fs, slices);

	beds::expect_all(*db);
	EXPECT(b.files().passed == 0 && b.files().reads_passed == 0);
	char byte = 'r';
	EXPECT(write(STDOUT_FILENO, &byte, 1) == 1);
	EXPECT(::read(STDIN_FILENO, &byte, 1) == 0);
	return 0;
}

/* Three children that all have the database open. */
struct readers {
	readers(const bed &b, bool slices)
	{
		int from[2], to[2];

		EXPECT(pipe2(from, O_CLOEXEC) == 0 && pipe2(to, O_CLOEXEC) == 0);
		for (pid_t &pid : pids) {
			pid = fork();
			if (pid == 0) {
				dup2(to[0], STDIN_FILENO);
				dup2(from[1], STDOUT_FILENO);
				execl("/proc/self/exe", "test", "--child",
				      b.folder.socket().c_str(),
				      b.database_path().c_str(), slices ? "1" : "0", nullptr);
				_exit(9);
			}
		}
		close(from[1]);
		close(to[0]);
		ready = from[0];
		end = to[1];
	}

	/* Whether all have read all. */
	bool wait_ready() const
	{
		char bytes[3];
		ssize_t nr = 0, n;

		while (nr < 3 && (n = ::read(ready, bytes, size_t(3 - nr))) > 0)
			nr += n;
		return nr == 3;
	}

	~readers()
	{
		close(end);
		close(ready);
		for (pid_t pid : pids)
			if (pid)
				waitpid(pid, nullptr, 0);
	}

	void kill_one()
	{
		kill(pids[0], SIGKILL);
		waitpid(pids[0], nullptr, 0);
		pids[0] = 0;
	}

	pid_t pids[3];
	int ready, end;
};

CASE(processes_share_the_memory_of_slices)
{
	bed b;
	uint64_t nr_large;

	b.make_database();
	uint64_t bytes = bytes_of_tables(b, MIB, nr_large);
	{
		readers all(b, true);

		EXPECT(all.wait_ready());
		struct lodic_stat stat = b.cache.stat();

		EXPECT(stat.holds_given >= 3 * nr_large && stat.holds_read == nr_large);
		EXPECT(stat.hold_used_bytes >= bytes &&
		       stat.hold_used_bytes < bytes + nr_large * BLOCK);
		all.kill_one();
		EXPECT(cases::until([&] { return b.cache.stat().clients < stat.clients; }));
		EXPECT(b.cache.stat().hold_used_bytes == stat.hold_used_bytes);
	}
	EXPECT(cases::until([&] { return b.cache.stat().hold_used_bytes == 0; }));
}

CASE(processes_share_the_blocks_of_copies)
{
	bed b;
	uint64_t nr_tables;

	b.make_database();
	uint64_t bytes = bytes_of_tables(b, 0, nr_tables);
	{
		readers first(b, false);

		EXPECT(first.wait_ready());
		first.kill_one();
	}
	struct lodic_stat stat = b.cache.stat();

	EXPECT(stat.cached >= bytes / BLOCK / 2 && stat.hits > stat.misses);
	{
		readers then(b, false);

		EXPECT(then.wait_ready());
	}
	EXPECT(b.cache.stat().cached <= bytes / BLOCK + nr_tables + 1);
	EXPECT(b.cache.stat().misses - stat.misses < stat.hits / 10);
	EXPECT(cases::until([&] { return b.cache.stat().contexts == 0; }));
}

CASE(reads_go_on_when_the_service_is_killed)
{
	bed b;

	b.make_database();
	database copies = b.open(b.fs, false), slices = b.open(b.fs, true);

	beds::expect_all(*copies);
	b.folder.end_service(SIGKILL);
	beds::expect_all(*copies);
	beds::expect_all(*slices);
	uint64_t nr = b.files().held;
	database next = b.open(b.fs, true); /* holds start another service */

	beds::expect_all(*next);
	EXPECT(b.files().held > nr && b.files().passed == 0);
}

CASE(without_a_service_all_is_passed)
{
	bed b(false);

	b.make_database();
	for (bool slices : { false, true })
		beds::expect_all(*b.open(b.fs, slices));
	EXPECT(b.files().passed > 0 && b.files().copied == 0 && b.files().held == 0);
	/* Once there is one, it is found. */
	lodicpp::cache cache(b.folder.options());
	std::string path = b.folder.make("data", "bytes");

	cases::need_cached(lodicpp::file(cache, path));
	EXPECT(cases::until([&] {
		b.open_file(path, true);
		return b.files().held > 0;
	}));
}

CASE(what_lodic_cannot_is_passed)
{
	bed b;
	std::string large = cases::pattern(61 * MIB, 9); /* blocks keep 4 of 64 MiB */
	std::string path = b.folder.make("large", large);

	EXPECT(beds::read(*b.open_file(path, true), 9 * MIB, 99) == large.substr(9 * MIB, 99));
	EXPECT(b.files().passed == 1 && b.files().held == 0);
	EXPECT(beds::read(*b.open_file(b.folder.make("empty", ""), false), 0, 9).empty());
	EXPECT(b.files().passed == 2);
	EXPECT(b.open_file(path, false, true)->use_direct_io());
	EXPECT(b.files().passed == 3 && b.files().copied == 0);
	table none;
	path = b.folder.path("gone");
	EXPECT(b.fs->NewRandomAccessFile(path, {}, &none, nullptr).IsPathNotFound());
	std::string text;
	path = b.folder.path("large");
	EXPECT(ReadFileToString(b.fs.get(), path, &text).ok() && text == large);
}

CASE(file_that_is_replaced_or_written_is_read_as_by_pread)
{
	bed b;
	std::string first = cases::pattern(2 * MIB, 1), second = cases::pattern(2 * MIB, 2);
	std::string path = b.folder.make("data", first);
	table copies = b.open_file(path, false), slices = b.open_file(path, true);

	EXPECT(beds::read(*copies, 0, first.size()) == first);
	b.folder.make("data", second);
	EXPECT(beds::read(*copies, 0, first.size()) == first);
	EXPECT(beds::read(*slices, 0, first.size()) == first);
	table next = b.open_file(path, false);

	EXPECT(beds::read(*next, 0, second.size()) == second);
	std::fstream(path, std::ios::binary | std::ios::in | std::ios::out) << "written";
	EXPECT(beds::read(*next, 0, 10) == "written" + second.substr(7, 3));
}

CASE(several_reads_at_once)
{
	bed b;
	std::string bytes = cases::pattern(MIB, 3);
	std::string path = b.folder.make("data", bytes);
	constexpr size_t NR = 5, N = 3000;

	for (bool slices : { false, true }) {
		table file = b.open_file(path, slices);
		std::string buffers[NR];
		rocksdb::FSReadRequest requests[NR];
		unsigned int nr_done = 0;

		for (size_t i = 0; i < NR; i++) {
			buffers[i].resize(N);
			requests[i].offset = i * 200001;
			requests[i].len = N;
			requests[i].scratch = buffers[i].data();
		}
		EXPECT(file->MultiRead(requests, NR, {}, nullptr).ok());
		for (size_t i = 0; i < NR; i++) {
			EXPECT(requests[i].status.ok());
			EXPECT(requests[i].result == bytes.substr(requests[i].offset, N));
			EXPECT(lies_in(requests[i].result, buffers[i]) != slices);
		}
		void *handle = nullptr;
		rocksdb::IOHandleDeleter end;
		auto done = [&](const rocksdb::FSReadRequest &r, void *arg) {
			nr_done += arg == &nr_done && r.result == bytes.substr(r.offset, N);
		};
		EXPECT(file->ReadAsync(requests[1], {}, done, &nr_done, &handle, &end, nullptr)
		               .ok());
		std::vector<void *> handles{ handle };
		EXPECT(b.fs->Poll(handles, 1).ok() && nr_done == 1);
	}
}

CASE(threads_give_their_contexts_back)
{
	bed b;
	std::string bytes = cases::pattern(40 * BLOCK, 3);
	table file = b.open_file(b.folder.make("data", bytes), false);
	std::atomic<unsigned int> nr_right{ 0 };
	std::vector<std::thread> threads;
	uint64_t before = b.cache.stat().contexts;

	for (int t = 0; t < 6; t++)
		threads.emplace_back([&] {
			for (size_t i = 0; i < 1000; i++)
				nr_right += beds::read(*file, i % 40 * BLOCK, 99) ==
				            bytes.substr(i % 40 * BLOCK, 99);
		});
	for (std::thread &t : threads)
		t.join();
	EXPECT(nr_right == 6000);
	EXPECT(cases::until([&] { return b.cache.stat().contexts == before; }));
	/* This thread's context of a file system that has gone ends when it reads by another. */
	beds::read(*file, 0, 1);
	EXPECT(b.cache.stat().contexts == before + 1);
	file.reset();
	b.fs.reset();
	std::error_code error;
	b.fs = lodicpp::rocksdb_file_system(b.folder.options(), error);
	file = b.open_file(b.folder.path("data"), false);
	EXPECT(beds::read(*file, 0, 9) == bytes.substr(0, 9));
	EXPECT(cases::until([&] { return b.cache.stat().contexts == before + 1; }));
}

CASE(with_one_descriptor_left_the_file_is_passed)
{
	bed b;
	std::string bytes = cases::pattern(40 * BLOCK, 3);
	std::string path = b.folder.make("data", bytes);
	std::vector<int> used;
	struct rlimit was, few;
	bool right = true;

	EXPECT(getrlimit(RLIMIT_NOFILE, &was) == 0);
	few = { 256, was.rlim_max };
	for (bool slices : { false, true }) {
		EXPECT(setrlimit(RLIMIT_NOFILE, &few) == 0);
		for (int fd; (fd = dup(STDERR_FILENO)) >= 0;)
			used.push_back(fd);
		close(used.back());
		used.pop_back();
		right &= beds::read(*b.open_file(path, slices), 5, 5000) == bytes.substr(5, 5000);
		for (int fd : used)
			close(fd);
		used.clear();
		EXPECT(setrlimit(RLIMIT_NOFILE, &was) == 0);
	}
	EXPECT(right && b.files().passed == 2);
}

CASE(forked_child_reads_below)
{
	bed b;
	std::string bytes = cases::pattern(2 * MIB, 3);
	std::string path = b.folder.make("data", bytes);
	table copies = b.open_file(path, false), slices = b.open_file(path, true);
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		bool right = beds::read(*copies, 5, 5000) == bytes.substr(5, 5000) &&
		             beds::read(*slices, MIB, 5000) == bytes.substr(MIB, 5000);

		_exit(right && b.files().reads_passed == 1 ? 0 : 1);
	}
	EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
	EXPECT(beds::read(*copies, 5, 5000) == bytes.substr(5, 5000));
	EXPECT(b.files().reads_passed == 0);
}

CASE(name_in_the_registry_makes_it)
{
	bed b;
	std::shared_ptr<rocksdb::FileSystem> made;
	lodicpp::rocksdb_files files;
	rocksdb::ConfigOptions options;
	std::string uri = "lodic://" + b.folder.socket();

	EXPECT(rocksdb::FileSystem::CreateFromString(options, uri, &made).ok());
	EXPECT(made->GetId() == uri && lodicpp::rocksdb_count_files(*made, files));
	b.fs = made;
	EXPECT(beds::read(*b.open_file(b.folder.make("data", "bytes"), false), 1, 9) == "ytes");
	EXPECT(b.files().copied == 1);
	rocksdb::Status status = rocksdb::FileSystem::CreateFromString(
		options, "lodic:///" + std::string(300, 'x'), &made);
	EXPECT(status.IsInvalidArgument());
	EXPECT(status.ToString().find(lodic_strerror(ENAMETOOLONG)) != std::string::npos);
	EXPECT(!lodicpp::rocksdb_count_files(*rocksdb::FileSystem::Default(), files));
}

int main(int argc, char **argv)
{
	if (argc == 5 && std::string(argv[1]) == "--child") {
		try {
			return read_in_child(argv[2], argv[3], *argv[4] == '1');
		} catch (const std::exception &error) {
			fprintf(stderr, "%s\n", error.what());
			return 1;
		}
	}
	return cases::run(argc, argv);
}

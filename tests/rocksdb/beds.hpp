/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the tests of liblodic-rocksdb.so share: databases that are only read, and files. */
#ifndef LODIC_TESTS_ROCKSDB_BEDS_HPP
#define LODIC_TESTS_ROCKSDB_BEDS_HPP

#include <rocksdb/db.h>
#include <rocksdb/table.h>

#include <lodic/rocksdb.hpp>

#include "tests/support/cases.hpp"

namespace beds
{

using database = std::unique_ptr<rocksdb::DB>;
using table = std::unique_ptr<rocksdb::FSRandomAccessFile>;

/* Keys of a database, in order. A value says which key it belongs to. */
constexpr int KEYS = 30000;
std::string key_of(int i);
std::string value_of(int i);

/* A folder with a service, and the ways to open what lies there. */
struct bed {
	/* Without a service: none runs, and none may be started by the file system. */
	explicit bed(bool with_service = true);

	/* Makes a database of tables of 1 to 2 MiB, and some smaller ones. */
	void make_database(rocksdb::CompressionType compression = rocksdb::kNoCompression) const;
	/* Through the file system, or by RocksDB's own (nullptr). slices: allow_mmap_reads. */
	database open(const std::shared_ptr<rocksdb::FileSystem> &through, bool slices) const;
	/* One file by itself. */
	table open_file(const std::string &path, bool slices, bool direct = false) const;
	lodicpp::rocksdb_files files() const;
	std::string database_path() const
	{
		return folder.path("db");
	}

	cases::folder folder;
	std::shared_ptr<rocksdb::FileSystem> fs;
	lodicpp::cache cache{ nullptr }; /* for what the service says */
};

/* All keys and values are there, forwards, backwards, by Get and by MultiGet, with checksums. */
void expect_all(rocksdb::DB &db);
/* Reads n bytes; the answer may end early at the file's end. */
std::string read(const rocksdb::FSRandomAccessFile &file, uint64_t offset, size_t n);

} // namespace beds

#endif

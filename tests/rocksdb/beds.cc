/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: tests/rocksdb/beds.hpp. */
#include "tests/rocksdb/beds.hpp"

namespace beds
{

using rocksdb::FileSystem;
using rocksdb::ReadOptions;

std::string key_of(int i)
{
	char key[16];

	snprintf(key, sizeof(key), "key%08d", i);
	return key;
}

std::string value_of(int i)
{
	return key_of(i) + cases::pattern(100 + i % 150, uint64_t(i));
}

bed::bed(bool with_service)
{
	lodicpp::options options = folder.options();
	std::error_code error;

	options.may_start = with_service;
	fs = lodicpp::rocksdb_file_system(options, error);
	EXPECT(fs && !error);
	if (!with_service)
		return;
	cache = lodicpp::cache(options);
	cases::need_cached(lodicpp::file(cache, folder.make("probe", "bytes")));
}

void bed::make_database(rocksdb::CompressionType compression) const
{
	rocksdb::Options options;
	rocksdb::DB *made = nullptr;

	options.create_if_missing = true;
	options.compression = compression;
	options.write_buffer_size = 1 << 20;
	options.target_file_size_base = 2 << 20;
	EXPECT(rocksdb::DB::Open(options, database_path(), &made).ok());
	database db(made);

	/* Out of order, so that compaction has to write new tables. */
	for (int j = 0; j < KEYS; j++) {
		int i = static_cast<int>(int64_t{ j } * 7919 % KEYS);

		EXPECT(db->Put({}, key_of(i), value_of(i)).ok());
	}
	EXPECT(db->CompactRange({}, nullptr, nullptr).ok());
	for (int i = 0; i < KEYS; i += 100)
		EXPECT(db->Put({}, key_of(i), value_of(i)).ok());
	EXPECT(db->Flush({}).ok());
	EXPECT(db->Close().ok());
}

database bed::open(const std::shared_ptr<FileSystem> &through, bool slices) const
{
	static std::vector<std::unique_ptr<rocksdb::Env>> envs; /* RocksDB's threads use them */
	rocksdb::BlockBasedTableOptions table_options;
	rocksdb::Options options;
	rocksdb::DB *opened = nullptr;

	if (through) {
		envs.push_back(rocksdb::NewCompositeEnv(through));
		options.env = envs.back().get();
	}
	/* Every look at a block is a read of the file. */
	table_options.no_block_cache = true;
	options.table_factory.reset(NewBlockBasedTableFactory(table_options));
	options.allow_mmap_reads = slices;
	options.max_open_files = -1;
	rocksdb::Status status = rocksdb::DB::OpenForReadOnly(options, database_path(), &opened);

	if (!status.ok())
		throw std::runtime_error(status.ToString());
	return database(opened);
}

table bed::open_file(const std::string &path, bool slices, bool direct) const
{
	rocksdb::FileOptions options;
	table file;

	options.use_mmap_reads = slices;
	options.use_direct_reads = direct;
	EXPECT(fs->NewRandomAccessFile(path, options, &file, nullptr).ok());
	return file;
}

lodicpp::rocksdb_files bed::files() const
{
	lodicpp::rocksdb_files files = {};

	EXPECT(lodicpp::rocksdb_count_files(*fs, files));
	return files;
}

static void expect_in_order(rocksdb::DB &db, const ReadOptions &options)
{
	std::unique_ptr<rocksdb::Iterator> at(db.NewIterator(options));
	int i = 0;

	for (at->SeekToFirst(); at->Valid(); at->Next(), i++)
		EXPECT(at->key() == key_of(i) && at->value() == value_of(i));
	EXPECT(at->status().ok() && i == KEYS);
	for (at->SeekToLast(); at->Valid(); at->Prev())
		EXPECT(at->key() == key_of(--i) && at->value() == value_of(i));
	EXPECT(at->status().ok() && i == 0);
}

void expect_all(rocksdb::DB &db)
{
	constexpr int STEP = 37, NR = 20;
	ReadOptions options, async;
	rocksdb::PinnableSlice values[NR];
	rocksdb::Status statuses[NR];

	options.verify_checksums = true;
	options.readahead_size = 64 << 10;
	expect_in_order(db, options);
	async.async_io = true;
	expect_in_order(db, async);
	EXPECT(db.VerifyChecksum().ok());
	for (int i = 0; i + NR * STEP < KEYS; i += NR * STEP) {
		std::vector<std::string> keys;
		std::vector<rocksdb::Slice> slices;

		for (int k = 0; k < NR; k++)
			keys.push_back(key_of(i + k * STEP));
		slices.assign(keys.begin(), keys.end());
		db.MultiGet(options, db.DefaultColumnFamily(), NR, slices.data(), values,
		            statuses);
		for (int k = 0; k < NR; k++) {
			EXPECT(statuses[k].ok() && values[k] == value_of(i + k * STEP));
			values[k].Reset();
		}
		EXPECT(db.Get(options, db.DefaultColumnFamily(), keys[0], &values[0]).ok());
		EXPECT(values[0] == value_of(i));
		values[0].Reset();
	}
	std::string none;
	EXPECT(db.Get(options, "none", &none).IsNotFound());
}

std::string read(const rocksdb::FSRandomAccessFile &file, uint64_t offset, size_t n)
{
	std::string scratch(n + 1, '\0');
	rocksdb::Slice got;

	EXPECT(file.Read(offset, n, {}, &got, scratch.data(), nullptr).ok());
	return got.ToString();
}

} // namespace beds

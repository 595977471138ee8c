/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A file system for RocksDB 7.8 that reads tables through lodic's cache, which all processes
 * share. It is liblodic-rocksdb.so, which is there where lodic was built beside RocksDB's headers.
 *
 *	std::error_code error;
 *	auto fs = lodicpp::rocksdb_file_system({}, error);
 *	auto env = rocksdb::NewCompositeEnv(fs);
 *
 *	options.env = env.get();
 *	options.allow_mmap_reads = true;           // slices of holds; false: copies
 *	rocksdb::DB::OpenForReadOnly(options, "/srv/db", &db);
 *
 * The library also registers itself by the name `lodic://SOCKET` (`lodic://`: the user's default
 * socket), so that programs with `--fs_uri` need no change:
 *
 *	LD_PRELOAD=liblodic-rocksdb.so db_bench --fs_uri=lodic:///run/cache.sock ...
 *
 * Made by that name, it says on stderr if there is no cache, and why; the program runs on.
 *
 * How a file is read is decided when RocksDB opens it for random access:
 * - held: with allow_mmap_reads the service holds the whole file (lodic_hold()). What RocksDB gets
 *   are slices of that memory, which is there until RocksDB closes the file.
 * - copied: without allow_mmap_reads lodic_read() copies into RocksDB's buffer.
 * - passed: the file system below reads it. So it is with use_direct_reads, with a file that
 *   lodic cannot cache, where the cache has no room to hold it, and without a service.
 *
 * Slices are given only for allow_mmap_reads. Without it, RocksDB's readahead takes for granted
 * that the bytes are in the buffer that it gave. Values of `rocksdb::PinnableSlice` and keys of
 * iterators may then point into the hold, exactly as they do into RocksDB's own mappings.
 *
 * All else goes to the file system below. It must name files as open(2) does. A copied or held
 * file has one descriptor there, and a copied one has another in liblodic. A thread has a
 * context of lodic's as soon as it reads a copied file, and until it ends.
 */
#ifndef LODIC_ROCKSDB_HPP
#define LODIC_ROCKSDB_HPP

#include <rocksdb/file_system.h>

#include <memory>
#include <system_error>

#include <lodic/lodic.hpp>

namespace lodicpp
{

/* Files opened so far, by how they are read; and what of copied files had to be read below. */
struct rocksdb_files {
	uint64_t held;
	uint64_t copied;
	uint64_t passed;
	uint64_t reads_passed;
};

/* nullptr, and the error: options make no sense (EINVAL, ENAMETOOLONG). A service that cannot be
 * reached is no error here, and no variable or configuration file that is wrong: files are passed
 * until there is one. lodic_reason() says why, to the thread that has called. below:
 * FileSystem::Default(). */
__attribute__((visibility("default"))) std::shared_ptr<rocksdb::FileSystem>
rocksdb_file_system(const options &options, std::error_code &ret_error,
                    const std::shared_ptr<rocksdb::FileSystem> &below = nullptr);

/* false: fs is no file system of lodic's, and has none below. */
__attribute__((visibility("default"))) bool
rocksdb_count_files(const rocksdb::FileSystem &fs, rocksdb_files &ret_files);

} // namespace lodicpp

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The file system, and its name in RocksDB's registry. Contract: lodic/rocksdb.hpp. */
#include <cstdio>

#include <rocksdb/utilities/object_registry.h>

#include "rocksdb/table_file.hpp"

namespace lodicpp
{
namespace
{

using rocksdb::FileOptions;
using rocksdb::FileSystem;
using rocksdb::FSRandomAccessFile;
using rocksdb::IODebugContext;
using rocksdb::IOStatus;

constexpr char SCHEME[] = "lodic";
constexpr char SEPARATOR[] = "://";

/* Reasons that do not pass while the file is open: lodic would only be in the way. */
bool stays_uncached(const std::error_code &why)
{
	for (std::errc reason : { std::errc::permission_denied, std::errc::operation_not_supported,
	                          std::errc::file_too_large, std::errc::no_message_available,
	                          std::errc::operation_not_permitted })
		if (why == reason)
			return true;
	return false;
}

class lodic_file_system : public rocksdb::FileSystemWrapper
{
public:
	lodic_file_system(const options &options, const std::shared_ptr<FileSystem> &below)
		: FileSystemWrapper(below), socket_(options.socket), attachments_(options)
	{
	}

	static const char *kClassName()
	{
		return SCHEME;
	}

	const char *Name() const override
	{
		return SCHEME;
	}

	std::string GetId() const override
	{
		return std::string(SCHEME) + SEPARATOR + socket_;
	}

	/* Attaches. An error: the options make no sense. */
	std::error_code attach()
	{
		std::error_code error;

		attachments_.get(error);
		return error;
	}

	std::string why()
	{
		return attachments_.why();
	}

	IOStatus NewRandomAccessFile(const std::string &path, const FileOptions &options,
	                             std::unique_ptr<FSRandomAccessFile> *ret_file,
	                             IODebugContext *debug) override
	{
		std::error_code error;
		std::shared_ptr<const inner::attachment> to;

		if (!options.use_direct_reads)
			to = attachments_.get(error);
		if (to) {
			file file(to->cache, path, error);

			if (!error && options.use_mmap_reads)
				return open_held(to, std::move(file), path, options, ret_file,
				                 debug);
			if (!error && !stays_uncached(file.cached()))
				return open_copied(to, std::move(file), path, options, ret_file,
				                   debug);
		}
		return open_passed(path, options, ret_file, debug);
	}

	/* Reads of lodic's files were done at once, and have left no handle to wait for. */
	IOStatus Poll(std::vector<void *> &handles, size_t least) override
	{
		std::vector<void *> theirs;

		for (void *handle : handles)
			if (handle)
				theirs.push_back(handle);
		size_t nr_done = handles.size() - theirs.size();

		if (theirs.empty())
			return IOStatus::OK();
		return FileSystemWrapper::Poll(theirs, least > nr_done ? least - nr_done : 0);
	}

	rocksdb_files files() const
	{
		return { counts_->held, counts_->copied, counts_->passed, counts_->reads_passed };
	}

private:
	IOStatus open_passed(const std::string &path, const FileOptions &options,
	                     std::unique_ptr<FSRandomAccessFile> *ret_file,
	                     IODebugContext *debug)
	{
		counts_->passed++;
		return target()->NewRandomAccessFile(path, options, ret_file, debug);
	}

	IOStatus open_copied(const std::shared_ptr<const inner::attachment> &to, file file,
	                     const std::string &path, const FileOptions &options,
	                     std::unique_ptr<FSRandomAccessFile> *ret_file,
	                     IODebugContext *debug)
	{
		inner::file_below below;
		IOStatus status = target()->NewRandomAccessFile(path, options, &below, debug);

		if (status.ok()) {
			*ret_file = inner::copied_file(to, std::move(file), std::move(below),
			                               counts_);
			counts_->copied++;
		}
		return status;
	}

	/* RocksDB may give no buffer with use_mmap_reads. So what is not held must be mapped. */
	IOStatus open_held(const std::shared_ptr<const inner::attachment> &to, file file,
	                   const std::string &path, const FileOptions &options,
	                   std::unique_ptr<FSRandomAccessFile> *ret_file, IODebugContext *debug)
	{
		inner::file_below below;
		FileOptions unmapped = options;
		std::error_code error;
		hold hold(to->cache, file, 0, 0, error);

		if (error)
			return open_passed(path, options, ret_file, debug);
		unmapped.use_mmap_reads = false;
		IOStatus status = target()->NewRandomAccessFile(path, unmapped, &below, debug);

		if (status.ok()) {
			*ret_file = inner::held_file(std::move(hold), std::move(below));
			counts_->held++;
		}
		return status;
	}

	const std::string socket_;
	inner::attachments attachments_;
	const std::shared_ptr<inner::counts> counts_ = std::make_shared<inner::counts>();
};

FileSystem *make(const std::string &uri, std::unique_ptr<FileSystem> *ret_owner,
                 std::string *ret_why)
{
	options options;

	options.socket = uri.substr(uri.find(SEPARATOR) + sizeof(SEPARATOR) - 1);
	auto made = std::make_unique<lodic_file_system>(options, FileSystem::Default());
	std::error_code error = made->attach();

	if (error) {
		*ret_why = "lodic: " + error.message();
		return nullptr;
	}
	/* The program knows nothing of lodic, and nobody else would say it. */
	if (!made->why().empty())
		fprintf(stderr, "lodic: RocksDB runs without a cache: %s\n", made->why().c_str());
	*ret_owner = std::move(made);
	return ret_owner->get();
}

/* RocksDB's own library is there first, because this one is linked with it. */
struct registered {
	registered()
	{
		using rocksdb::ObjectLibrary;

		ObjectLibrary::Default()->AddFactory<FileSystem>(
			ObjectLibrary::PatternEntry(SCHEME, false).AddSeparator(SEPARATOR, false),
			make);
	}
};
const registered at_start;

} // namespace

std::shared_ptr<FileSystem> rocksdb_file_system(const options &options,
                                                std::error_code &ret_error,
                                                const std::shared_ptr<FileSystem> &below)
{
	auto made = std::make_shared<lodic_file_system>(
		options, below ? below : FileSystem::Default());

	ret_error = made->attach();
	if (ret_error)
		return nullptr;
	return made;
}

bool rocksdb_count_files(const FileSystem &fs, rocksdb_files &ret_files)
{
	const auto *found = fs.CheckedCast<lodic_file_system>();

	if (found)
		ret_files = found->files();
	return found;
}

} // namespace lodicpp

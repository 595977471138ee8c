/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: rocksdb/table_file.hpp. */
#include "rocksdb/table_file.hpp"

#include <algorithm>

namespace lodicpp::inner
{
namespace
{

using rocksdb::FSRandomAccessFile;
using rocksdb::FSReadRequest;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

/* Several reads, and one whose answer is called back, are done one by one by Read(): it needs no
 * system call for what is cached. */
class table_file : public rocksdb::FSRandomAccessFileOwnerWrapper
{
public:
	using FSRandomAccessFileOwnerWrapper::FSRandomAccessFileOwnerWrapper;

	IOStatus MultiRead(FSReadRequest *requests, size_t nr, const IOOptions &options,
	                   IODebugContext *debug) override
	{
		return FSRandomAccessFile::MultiRead(requests, nr, options, debug);
	}

	IOStatus ReadAsync(FSReadRequest &request, const IOOptions &options,
	                   std::function<void(const FSReadRequest &, void *)> done, void *arg,
	                   void **ret_handle, rocksdb::IOHandleDeleter *ret_end,
	                   IODebugContext *debug) override
	{
		return FSRandomAccessFile::ReadAsync(request, options, std::move(done), arg,
		                                     ret_handle, ret_end, debug);
	}
};

class held : public table_file
{
public:
	held(hold hold, file_below below)
		: table_file(std::move(below)), hold_(std::move(hold)), text_(hold_.text())
	{
	}

	IOStatus Read(uint64_t offset, size_t n, const IOOptions &, Slice *ret_bytes, char *,
	              IODebugContext *) const override
	{
		std::string_view at = text_.substr(std::min<uint64_t>(offset, text_.size()), n);

		*ret_bytes = Slice(at.data(), at.size());
		return IOStatus::OK();
	}

	/* All of it is there. */
	IOStatus Prefetch(uint64_t, size_t, const IOOptions &, IODebugContext *) override
	{
		return IOStatus::OK();
	}

private:
	const hold hold_;
	const std::string_view text_;
};

class copied : public table_file
{
public:
	copied(std::shared_ptr<const attachment> of, file file, file_below below,
	       std::shared_ptr<counts> counts)
		: table_file(std::move(below)), of_(std::move(of)), file_(std::move(file)),
		  counts_(std::move(counts))
	{
	}

	IOStatus Read(uint64_t offset, size_t n, const IOOptions &options, Slice *ret_bytes,
	              char *scratch, IODebugContext *debug) const override
	{
		const context *by = context_of_thread(of_);
		std::error_code error;
		size_t nr = 0, got = 1;

		while (by && nr < n && got > 0 && !error) {
			got = by->read(file_, scratch + nr, n - nr, static_cast<off_t>(offset + nr),
			               error);
			nr += got;
		}
		if (!by || error) {
			counts_->reads_passed.fetch_add(1, std::memory_order_relaxed);
			return target()->Read(offset, n, options, ret_bytes, scratch, debug);
		}
		*ret_bytes = Slice(scratch, nr);
		return IOStatus::OK();
	}

	/* With OK RocksDB makes no buffer of its own for what it will read. */
	IOStatus Prefetch(uint64_t offset, size_t n, const IOOptions &options,
	                  IODebugContext *debug) override
	{
		const context *by = context_of_thread(of_);
		std::error_code error;

		if (by && n > 0) {
			by->prefetch(file_, static_cast<off_t>(offset), n, 0, error);
			if (!error)
				return IOStatus::OK();
		}
		return target()->Prefetch(offset, n, options, debug);
	}

private:
	const std::shared_ptr<const attachment> of_;
	const file file_;
	const std::shared_ptr<counts> counts_;
};

} // namespace

file_below held_file(hold hold, file_below below)
{
	return std::make_unique<held>(std::move(hold), std::move(below));
}

file_below copied_file(std::shared_ptr<const attachment> of, file file, file_below below,
                       const std::shared_ptr<counts> &counts)
{
	return std::make_unique<copied>(std::move(of), std::move(file), std::move(below),
	                                counts);
}

} // namespace lodicpp::inner

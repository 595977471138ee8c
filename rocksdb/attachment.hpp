/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A file system's way to the cache. It attaches when first asked, and again when that has failed,
 * so that a database opens without a service too. Each thread has a context of its own for each
 * attachment.
 */
#ifndef LODIC_ROCKSDB_ATTACHMENT_HPP
#define LODIC_ROCKSDB_ATTACHMENT_HPP

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>

#include <lodic/rocksdb.hpp>

namespace lodicpp::inner
{

/* Files have a part in it, so that contexts of threads know when it has gone. */
struct attachment {
	lodicpp::cache cache;
	uint64_t number; /* no other attachment of this process has it */
};

class attachments
{
public:
	explicit attachments(const options &options) : options_(options)
	{
	}

	/* nullptr: there is no service now. The next calls do not try again for ten times as long
	 * as this one took, and 2 s at least. ret_error is for the caller's own mistakes. */
	std::shared_ptr<const attachment> get(std::error_code &ret_error);
	/* Why there is no service now: a sentence; empty: there is one, or nobody has asked. */
	std::string why();

private:
	const options options_;
	std::mutex lock_; /* of the next three */
	std::shared_ptr<const attachment> now_;
	std::chrono::steady_clock::time_point next_try_;
	std::string why_;
};

/* The calling thread's context. nullptr: it has none. It asks again after some thousand calls. */
const context *context_of_thread(const std::shared_ptr<const attachment> &of);

/* Counts for struct rocksdb_files. Readers add to reads_passed alone, when the kernel reads. */
struct counts {
	std::atomic<uint64_t> held{ 0 }, copied{ 0 }, passed{ 0 }, reads_passed{ 0 };
};

} // namespace lodicpp::inner

#endif

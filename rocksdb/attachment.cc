/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: rocksdb/attachment.hpp. */
#include "rocksdb/attachment.hpp"

#include <algorithm>
#include <vector>

namespace lodicpp::inner
{
namespace
{

using clock = std::chrono::steady_clock;

constexpr auto RETRY_LEAST = std::chrono::seconds(2);
constexpr int RETRY_TIMES = 10;
/* Reads of a thread without a context, until it asks for one again. */
constexpr unsigned int CONTEXT_RETRY = 4096;

struct entry {
	uint64_t number;
	std::weak_ptr<const attachment> of;
	lodicpp::context context;
	unsigned int nr_without;
};

/* A thread mostly reads through one file system. */
struct entries {
	std::vector<entry> all;
	size_t last = 0;
};
thread_local entries mine;

entry *entry_find(uint64_t number)
{
	if (mine.last < mine.all.size() && mine.all[mine.last].number == number)
		return &mine.all[mine.last];
	for (size_t i = 0; i < mine.all.size(); i++)
		if (mine.all[i].number == number) {
			mine.last = i;
			return &mine.all[i];
		}
	return nullptr;
}

/* Contexts of file systems that have gone end here. */
entry *entry_make(const std::shared_ptr<const attachment> &of)
{
	mine.all.erase(std::remove_if(mine.all.begin(), mine.all.end(),
	                              [](const entry &e) { return e.of.expired(); }),
	               mine.all.end());
	mine.last = mine.all.size();
	mine.all.push_back({ of->number, of, {}, 0 });
	return &mine.all.back();
}

/* A mistake in a variable or a file is none of the caller's: it must not keep a database shut. */
bool is_callers_mistake(enum lodic_reason reason, const options &options)
{
	return reason == LODIC_REASON_ARGUMENT || reason == LODIC_REASON_CACHE_SIZE ||
	       (reason == LODIC_REASON_LONG_PATH && !options.socket.empty());
}

} // namespace

std::shared_ptr<const attachment> attachments::get(std::error_code &ret_error)
{
	static std::atomic<uint64_t> nr_made{ 0 };
	std::lock_guard<std::mutex> guard(lock_);
	clock::time_point began = clock::now();
	std::error_code error;

	ret_error.clear();
	if (now_ || began < next_try_)
		return now_;
	cache cache(options_, error);
	if (error) {
		why_ = error.message();
		if (is_callers_mistake(::lodic_reason(error.value()), options_))
			ret_error = error;
		next_try_ = clock::now() +
		            std::max<clock::duration>(RETRY_LEAST,
		                                      RETRY_TIMES * (clock::now() - began));
		return nullptr;
	}
	now_ = std::make_shared<const attachment>(attachment{ std::move(cache), ++nr_made });
	return now_;
}

std::string attachments::why()
{
	std::lock_guard<std::mutex> guard(lock_);

	return now_ ? std::string() : why_;
}

const context *context_of_thread(const std::shared_ptr<const attachment> &of)
{
	entry *e = entry_find(of->number);
	std::error_code ignored;

	if (!e)
		e = entry_make(of);
	if (!e->context && e->nr_without++ % CONTEXT_RETRY == 0)
		e->context = context(of->cache, ignored);
	return e->context ? &e->context : nullptr;
}

} // namespace lodicpp::inner

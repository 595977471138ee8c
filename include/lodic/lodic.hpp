/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * lodic/lodic.h for C++17: caches, files, pins, views and holds that end with a scope.
 *
 *	lodicpp::cache cache;                       // starts the service if none is there
 *	lodicpp::file file(cache, "/srv/words");
 *	lodicpp::context context(cache);            // one for each thread
 *
 *	if (lodicpp::pin pin{ context, file, at })
 *		use(pin.data(), pin.size());        // in place, until the pin's scope ends
 *	else
 *		n = context.read(file, buffer, sizeof(buffer), at);
 *
 *	lodicpp::hold hold(cache, file);            // all of it; any thread may have it
 *
 * What each call guarantees and costs stands in lodic.h. doc/use/own.md has a whole program.
 *
 * - A constructor that can fail throws std::system_error. With a std::error_code as its last
 *   argument it fills that instead, and the object is empty: false in a condition. Only
 *   std::string and std::vector may throw more, std::bad_alloc.
 * - A pin or a view that cannot be had now is no error: the object is false, and
 *   context::read() does the work. why_not() says what the reason was.
 * - Caches, files, contexts and holds can be moved, and not copied. A pin can do neither: it
 *   belongs to its scope, and so to the thread that has the context. To have pins in a
 *   container, use one that never moves them (std::deque, std::list).
 * - A pin or a view must end before its context does, and a view's file must stay open. A hold
 *   needs neither: it may outlive the file, the context and the cache.
 * - An empty object (moved from, or failed) may only be destroyed, assigned to, or asked
 *   whether it is empty.
 */
#ifndef LODIC_LODIC_HPP
#define LODIC_LODIC_HPP

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <lodic/lodic.h>

namespace lodicpp
{

/* Errors of lodic.h: errno values, with the words of lodic_strerror(). They compare with
 * std::errc, as those of std::generic_category() do. */
inline const std::error_category &category() noexcept
{
	class words : public std::error_category
	{
		const char *name() const noexcept override
		{
			return "lodic";
		}

		std::string message(int error) const override
		{
			return lodic_strerror(error);
		}

		std::error_condition default_error_condition(int error) const noexcept override
		{
			return { error, std::generic_category() };
		}
	};
	static const words the_words;

	return the_words;
}

/* What a function of lodic.h has returned; 0 or more: no error. */
inline std::error_code error_of(long result) noexcept
{
	return { result < 0 ? static_cast<int>(-result) : 0, category() };
}

namespace inner
{

inline void throw_if(const std::error_code &error, const char *what)
{
	if (error)
		throw std::system_error(error, what);
}

/* A pointer of lodic.h that ends with its owner. */
template <typename T, void (*end)(T *)> struct ends {
	void operator()(T *of) const noexcept
	{
		end(of);
	}
};
template <typename T, void (*end)(T *)>
using owner = std::unique_ptr<T, ends<T, end>>;

/* Bytes in place, for what is readable: a pin, a view or a hold. */
template <typename Self> class bytes
{
public:
	const std::byte *begin() const noexcept
	{
		return self().data();
	}

	const std::byte *end() const noexcept
	{
		return self().data() + self().size();
	}

	std::string_view text() const noexcept
	{
		return { reinterpret_cast<const char *>(self().data()), self().size() };
	}

private:
	const Self &self() const noexcept
	{
		return static_cast<const Self &>(*this);
	}
};

} // namespace inner

/* As struct lodic_options. What is empty or 0 says nothing. */
struct options {
	std::string socket;
	std::string service;
	bool may_start = true; /* false: no service is started */
	uint64_t cache_bytes = 0;
	lodic_scheme scheme = LODIC_LODIC;
	uint32_t idle_exit_ms = 0;
	uint64_t hold_bytes = 0;
};

/* This process's attachment to a cache. Any thread may use it. */
class cache
{
public:
	/* An empty one. */
	explicit cache(std::nullptr_t) noexcept
	{
	}

	explicit cache(const options &options = {})
	{
		std::error_code error;

		*this = cache(options, error);
		inner::throw_if(error, "lodic: attach");
	}

	cache(const options &options, std::error_code &ret_error) noexcept
	{
		lodic_options plain{};
		struct lodic *lodic = nullptr;

		plain.bytes = sizeof(plain);
		if (!options.socket.empty())
			plain.socket = options.socket.c_str();
		if (!options.may_start || !options.service.empty())
			plain.service = options.may_start ? options.service.c_str() : "";
		plain.cache_bytes = options.cache_bytes;
		plain.scheme = options.scheme;
		plain.idle_exit_ms = options.idle_exit_ms;
		plain.hold_bytes = options.hold_bytes;
		ret_error = error_of(lodic_attach(&plain, &lodic));
		lodic_.reset(lodic);
	}

	explicit operator bool() const noexcept
	{
		return bool(lodic_);
	}

	struct lodic *get() const noexcept
	{
		return lodic_.get();
	}

	/* What the cache holds, and what it has done. */
	struct lodic_stat stat() const
	{
		std::error_code error;
		struct lodic_stat stat = this->stat(error);

		inner::throw_if(error, "lodic: stat");
		return stat;
	}

	struct lodic_stat stat(std::error_code &ret_error) const noexcept
	{
		struct lodic_stat stat = {};

		ret_error = error_of(lodic_stat(get(), &stat, sizeof(stat)));
		return stat;
	}

private:
	inner::owner<struct lodic, lodic_detach> lodic_;
};

/* An open file. Any thread may use it. */
class file
{
public:
	file() noexcept = default;

	/* The library duplicates fd, which stays the caller's. */
	file(const cache &cache, int fd)
	{
		std::error_code error;

		*this = file(cache, fd, error);
		inner::throw_if(error, "lodic: open");
	}

	file(const cache &cache, int fd, std::error_code &ret_error) noexcept
	{
		lodic_file *opened = nullptr;

		ret_error = error_of(lodic_open(cache.get(), fd, &opened));
		file_.reset(opened);
	}

	file(const cache &cache, const std::string &path)
	{
		std::error_code error;

		*this = file(cache, path, error);
		inner::throw_if(error, path.c_str());
	}

	file(const cache &cache, const std::string &path, std::error_code &ret_error) noexcept
	{
		int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);

		if (fd < 0) {
			ret_error = { errno, std::generic_category() };
			return;
		}
		*this = file(cache, fd, ret_error);
		::close(fd);
	}

	explicit operator bool() const noexcept
	{
		return bool(file_);
	}

	lodic_file *get() const noexcept
	{
		return file_.get();
	}

	/* No error: the file is cached now. Else the reason why it is not. */
	std::error_code cached() const noexcept
	{
		return error_of(lodic_file_cached(get()));
	}

private:
	inner::owner<lodic_file, lodic_close> file_;
};

/* One reader, which belongs to one thread at a time. */
class context
{
public:
	context() noexcept = default;

	explicit context(const cache &cache)
	{
		std::error_code error;

		*this = context(cache, error);
		inner::throw_if(error, "lodic: context");
	}

	context(const cache &cache, std::error_code &ret_error) noexcept
	{
		lodic_context *opened = nullptr;

		ret_error = error_of(lodic_context_open(cache.get(), &opened));
		context_.reset(opened);
	}

	explicit operator bool() const noexcept
	{
		return bool(context_);
	}

	lodic_context *get() const noexcept
	{
		return context_.get();
	}

	/* How many bytes were read, as pread(2); 0: the end of the file. */
	size_t read(const file &file, void *buffer, size_t n, off_t offset) const
	{
		std::error_code error;
		size_t got = read(file, buffer, n, offset, error);

		inner::throw_if(error, "lodic: read");
		return got;
	}

	size_t read(const file &file, void *buffer, size_t n, off_t offset,
	            std::error_code &ret_error) const noexcept
	{
		ssize_t got = lodic_read(get(), file.get(), buffer, n, offset);

		ret_error = error_of(got);
		return got < 0 ? 0 : static_cast<size_t>(got);
	}

	/* Brings n bytes into the cache, or all from offset on (0). flags: LODIC_WAIT. */
	void prefetch(const file &file, off_t offset = 0, uint64_t n = 0,
	              unsigned int flags = 0) const
	{
		std::error_code error;

		prefetch(file, offset, n, flags, error);
		inner::throw_if(error, "lodic: prefetch");
	}

	void prefetch(const file &file, off_t offset, uint64_t n, unsigned int flags,
	              std::error_code &ret_error) const noexcept
	{
		ret_error = error_of(lodic_prefetch(get(), file.get(), offset, n, flags));
	}

	struct lodic_context_stat stat() const noexcept
	{
		struct lodic_context_stat stat;

		lodic_context_stat(get(), &stat, sizeof(stat));
		return stat;
	}

private:
	inner::owner<lodic_context, lodic_context_close> context_;
};

/* A pinned piece of a block, which stays until its scope ends. */
class pin : public inner::bytes<pin>
{
public:
	pin(const context &context, const file &file, off_t offset) noexcept
		: context_(context.get()),
		  result_(lodic_pin(context_, file.get(), offset, &pin_))
	{
	}

	~pin()
	{
		release();
	}

	pin(const pin &) = delete;
	pin &operator=(const pin &) = delete;

	/* Before the scope ends. The pin is false afterwards. */
	void release() noexcept
	{
		if (result_ == 0)
			lodic_unpin(context_, &pin_);
		result_ = -ESTALE;
	}

	explicit operator bool() const noexcept
	{
		return result_ == 0;
	}

	const std::byte *data() const noexcept
	{
		return static_cast<const std::byte *>(pin_.data);
	}

	/* To the end of the block or of the file. */
	size_t size() const noexcept
	{
		return pin_.bytes;
	}

	std::error_code why_not() const noexcept
	{
		return error_of(result_);
	}

private:
	lodic_context *context_;
	struct lodic_pin pin_ = {};
	int result_;
};

/* A range that may cross blocks, pinned in up to N pieces. */
template <unsigned int N> class pins
{
public:
	pins(const context &context, const file &file, off_t offset, uint64_t bytes) noexcept
		: context_(context.get()),
		  result_(lodic_pinv(context_, file.get(), offset, bytes, pins_.data(), N))
	{
	}

	~pins()
	{
		for (size_t i = 0; i < size(); i++)
			lodic_unpin(context_, &pins_[i]);
	}

	pins(const pins &) = delete;
	pins &operator=(const pins &) = delete;

	explicit operator bool() const noexcept
	{
		return result_ > 0;
	}

	/* How many pieces there are, and the i-th. */
	size_t size() const noexcept
	{
		return result_ > 0 ? static_cast<size_t>(result_) : 0;
	}

	std::string_view operator[](size_t i) const noexcept
	{
		return { static_cast<const char *>(pins_[i].data), pins_[i].bytes };
	}

	std::error_code why_not() const noexcept
	{
		return error_of(result_);
	}

private:
	lodic_context *context_;
	std::array<struct lodic_pin, N> pins_ = {};
	int result_;
};

/* A piece of a block that is read where it lies. What has been read counts only if valid() says
 * so afterwards. It holds nothing, and may be copied. */
class view : public inner::bytes<view>
{
public:
	view(const context &context, const file &file, off_t offset) noexcept
		: context_(context.get()),
		  result_(lodic_view_begin(context_, file.get(), offset, &view_))
	{
	}

	explicit operator bool() const noexcept
	{
		return result_ == 0;
	}

	const std::byte *data() const noexcept
	{
		return static_cast<const std::byte *>(view_.data);
	}

	size_t size() const noexcept
	{
		return view_.bytes;
	}

	/* true: all bytes that the program has read through the view so far are the file's. */
	bool valid() const noexcept
	{
		return result_ == 0 && lodic_view_valid(context_, &view_);
	}

	std::error_code why_not() const noexcept
	{
		return error_of(result_);
	}

private:
	lodic_context *context_;
	struct lodic_view view_ = {};
	int result_;
};

/* A contiguous range of a file, in memory that stays until the hold ends. Any thread may look at
 * it, and end it. To share one among threads, use std::make_shared<lodicpp::hold>(). */
class hold : public inner::bytes<hold>
{
public:
	hold() noexcept = default;

	/* Waits until the bytes are there. n = 0: to the end of the file. */
	hold(const cache &cache, const file &file, off_t offset = 0, uint64_t n = 0)
	{
		std::error_code error;

		*this = hold(cache, file, offset, n, error);
		inner::throw_if(error, "lodic: hold");
	}

	hold(const cache &cache, const file &file, off_t offset, uint64_t n,
	     std::error_code &ret_error) noexcept
	{
		struct lodic_hold *held = nullptr;

		ret_error = error_of(
			lodic_hold(cache.get(), file.get(), offset, n, LODIC_WAIT, &held));
		hold_.reset(held);
	}

	explicit operator bool() const noexcept
	{
		return bool(hold_);
	}

	struct lodic_hold *get() const noexcept
	{
		return hold_.get();
	}

	const std::byte *data() const noexcept
	{
		return static_cast<const std::byte *>(lodic_hold_data(get()));
	}

	size_t size() const noexcept
	{
		return lodic_hold_bytes(get());
	}

	/* A descriptor of the memory, which the caller must close. The first byte lies at
	 * ret_at. */
	int descriptor(off_t &ret_at) const
	{
		int fd = lodic_hold_fd(get(), &ret_at);

		inner::throw_if(error_of(fd), "lodic: descriptor of a hold");
		return fd;
	}

private:
	friend class hold_later;
	inner::owner<struct lodic_hold, lodic_release> hold_;
};

/* A hold whose bytes the service still reads. The file must stay open until get() has returned,
 * or the object has ended. */
class hold_later
{
public:
	/* Does not wait, unless the service reads 64 ranges for this program already. */
	hold_later(const cache &cache, const file &file, off_t offset = 0, uint64_t n = 0)
	{
		std::error_code error;

		*this = hold_later(cache, file, offset, n, error);
		inner::throw_if(error, "lodic: hold");
	}

	hold_later(const cache &cache, const file &file, off_t offset, uint64_t n,
	           std::error_code &ret_error) noexcept
	{
		struct lodic_hold *held = nullptr;
		int result = lodic_hold(cache.get(), file.get(), offset, n, 0, &held);

		if (result == -EAGAIN)
			result = lodic_hold(cache.get(), file.get(), offset, n, LODIC_WAIT,
			                    &held);
		ret_error = error_of(result);
		hold_.reset(held);
	}

	explicit operator bool() const noexcept
	{
		return bool(hold_);
	}

	/* true: get() will not wait. */
	bool ready() const noexcept
	{
		return lodic_hold_ready(hold_.get()) != 0;
	}

	/* What poll(2) finds readable when ready() is worth asking; -1: it is ready. */
	int event() const noexcept
	{
		return lodic_hold_event(hold_.get());
	}

	/* Waits, and gives the hold. This object is empty afterwards. */
	hold get()
	{
		std::error_code error;
		hold done = get(error);

		inner::throw_if(error, "lodic: hold");
		return done;
	}

	hold get(std::error_code &ret_error) noexcept
	{
		int result;
		hold done;

		while ((result = lodic_hold_ready(hold_.get())) == 0) {
			struct pollfd at = { lodic_hold_event(hold_.get()), POLLIN, 0 };

			if (at.fd >= 0)
				poll(&at, 1, -1);
		}
		ret_error = error_of(result);
		done.hold_ = std::move(hold_);
		if (ret_error)
			done.hold_.reset();
		return done;
	}

private:
	inner::owner<struct lodic_hold, lodic_release> hold_;
};

} // namespace lodicpp

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * lodic/counter.h for C++17: references that end with a scope.
 *
 *	lodicpp::counter_guard guard(domain, page->counter);     // for a scope of one thread
 *	if (!guard)
 *		return look_up_again();
 *	use(page);
 *
 *	lodicpp::counter_handle handle = lodicpp::counter_handle::take(domain, page->counter);
 *	queue.push(std::move(handle));                         // any thread may end it
 *
 * Both cost what lodic_counter_try_get() and lodic_counter_put() cost. A guard can be neither
 * copied nor moved. A handle can be moved, and copied while it holds. Both end at the end of
 * their scope, so also when a thread ends by return, by an exception, by pthread_exit() or by
 * pthread_cancel(), which unwind its frames.
 */
#ifndef LODIC_COUNTER_HPP
#define LODIC_COUNTER_HPP

#include <lodic/counter.h>

namespace lodicpp
{

/* A reference of a scope. false in a condition: the object was killed. */
class counter_guard
{
public:
	counter_guard(lodic_domain *domain, lodic_counter &counter) noexcept
		: domain_(domain), counter_(&counter)
	{
		if (!lodic_counter_try_get(domain, &counter, &token_))
			counter_ = nullptr;
	}

	~counter_guard()
	{
		if (counter_)
			lodic_counter_put(domain_, counter_, token_);
	}

	counter_guard(const counter_guard &) = delete;
	counter_guard &operator=(const counter_guard &) = delete;

	explicit operator bool() const noexcept
	{
		return counter_ != nullptr;
	}

private:
	lodic_domain *domain_;
	lodic_counter *counter_;
	uint64_t token_ = 0;
};

/* A reference that the program owns: it may go to another thread, and end there. */
class counter_handle
{
public:
	counter_handle() noexcept = default;

	/* An empty handle: the object was killed. */
	static counter_handle take(lodic_domain *domain, lodic_counter &counter) noexcept
	{
		counter_handle h;

		if (lodic_counter_try_get(domain, &counter, &h.token_)) {
			h.domain_ = domain;
			h.counter_ = &counter;
		}
		return h;
	}

	counter_handle(const counter_handle &other) noexcept
		: domain_(other.domain_), counter_(other.counter_)
	{
		if (counter_) /* other holds one, so this cannot fail */
			token_ = lodic_counter_get(domain_, counter_);
	}

	counter_handle(counter_handle &&other) noexcept
	{
		swap(other);
	}

	counter_handle &operator=(counter_handle other) noexcept
	{
		swap(other);
		return *this;
	}

	~counter_handle()
	{
		reset();
	}

	void reset() noexcept
	{
		lodic_counter *counter = counter_;

		counter_ = nullptr;
		if (counter)
			lodic_counter_put(domain_, counter, token_);
	}

	void swap(counter_handle &other) noexcept
	{
		counter_handle_swap(domain_, other.domain_);
		counter_handle_swap(counter_, other.counter_);
		counter_handle_swap(token_, other.token_);
	}

	explicit operator bool() const noexcept
	{
		return counter_ != nullptr;
	}

private:
	template <typename T> static void counter_handle_swap(T &a, T &b) noexcept
	{
		T was = a;

		a = b;
		b = was;
	}

	lodic_domain *domain_ = nullptr;
	lodic_counter *counter_ = nullptr;
	uint64_t token_ = 0;
};

} // namespace lodicpp

#endif

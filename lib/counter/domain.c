/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Domains and counters. Contract: lodic/counter.h; protocol: core/counter/counter.h. */
#include <errno.h>

#include "lib/counter/domain.h"
#include "lib/huge.h"
#include "lib/port.h"

#define ENTRIES_DEFAULT 4096u
#define ENTRIES_MOST (1u << 20)
/* Two buckets. */
#define ENTRIES_LEAST (2 * COUNTER_WAYS)

/* A kernel may give any thread any of these numbers, also of CPUs that come later. */
static int tables_make(struct lodic_domain *d, u32 entries)
{
	u32 bits = 1, cpu;
	void *p;
	int err;

	while ((COUNTER_WAYS << bits) < entries)
		bits++;
	d->nr_entries = COUNTER_WAYS << bits;
	d->core.mask = ((1u << bits) - 1) * COUNTER_LINE;
	d->core.stride = d->nr_entries * sizeof(struct counter_entry);
	d->core.nr_cpus = host_nr_cpus();
	d->bytes = d->core.nr_cpus * d->core.stride;
	/* Zeroed, and each page is made where it is touched first: near its CPU. */
	err = huge_map_part(-1, 0, d->bytes, PORT_READ | PORT_WRITE,
	                    PORT_PRIVATE | PORT_ANONYMOUS | PORT_UNRESERVED, &p);
	if (err)
		return -ENOMEM;
	/* Objects are spread over all pages of a table. So tables that fill a huge page get huge
	 * pages, also of several CPUs (ADR-0036). Smaller ones would cost more memory than they
	 * have. Where there are none this fails, and is right. */
	port_advise(p, d->bytes,
	            d->bytes >= HUGE_PAGE_BYTES ? PORT_HUGE_PAGES : PORT_SMALL_PAGES);
	/* Tokens have 48 bits for an address and 16 for a CPU. Linux gives no higher address
	 * unless it is asked to, and has fewer CPUs. */
	CHECK(((u64)(size_t)p + d->bytes) >> COUNTER_TOKEN_ADDRESS_BITS == 0 &&
	              d->core.nr_cpus <= COUNTER_TOKEN_CPU,
	      "a token has room for each entry");
	d->core.entries = p;
	for (cpu = 0; cpu < d->core.nr_cpus; cpu++)
		d->cpus[cpu] = counter_entry(&d->core, cpu, 0);
	return 0;
}

EXPORT int lodic_domain_create(const struct lodic_domain_options *options,
                               struct lodic_domain **ret_domain)
{
	static const u32 schemes[] = {
		[LODIC_COUNTER_PAYGO] = COUNTER_PAYGO,
		[LODIC_COUNTER_PERCPU] = COUNTER_PERCPU,
		[LODIC_COUNTER_ATOMIC] = COUNTER_ATOMIC,
	};
	u32 entries;
	struct lodic_domain *d;
	int err;

	if (!options || !options->release || options->entries > ENTRIES_MOST ||
	    (u32)options->scheme >= sizeof(schemes) / sizeof(schemes[0]))
		return -EINVAL;
	d = port_alloc(sizeof(*d) + host_nr_cpus() * sizeof(d->cpus[0]));
	if (!d)
		return -ENOMEM;
	d->release = options->release;
	d->arg = options->arg;
	d->core.scheme = schemes[options->scheme];
	entries = options->entries ? options->entries : ENTRIES_DEFAULT;
	if (d->core.scheme == COUNTER_ATOMIC || entries < ENTRIES_LEAST)
		entries = ENTRIES_LEAST;
	err = tables_make(d, entries);
	if (err) {
		port_free(d);
		return err;
	}
	/* Is the fence of a kill there? Without it there must be no sequences. Nor may there be
	 * any where the number of CPUs is a guess, and there the fence says no. */
	d->sequences = d->core.scheme == COUNTER_PAYGO && host_fence_abort();
	if (d->core.scheme == COUNTER_PAYGO && !d->sequences)
		d->core.scheme = COUNTER_PERCPU;
	*ret_domain = d;
	return 0;
}

EXPORT void lodic_domain_destroy(struct lodic_domain *domain)
{
	if (!domain)
		return;
	port_unmap(domain->core.entries, domain->bytes);
	port_free(domain);
}

EXPORT void lodic_domain_stat(const struct lodic_domain *domain,
                              struct lodic_domain_stat *ret_stat)
{
	static const enum lodic_counter_scheme schemes[] = {
		[COUNTER_PAYGO] = LODIC_COUNTER_PAYGO,
		[COUNTER_PERCPU] = LODIC_COUNTER_PERCPU,
		[COUNTER_ATOMIC] = LODIC_COUNTER_ATOMIC,
	};

	*ret_stat = (struct lodic_domain_stat){
		.scheme = schemes[domain->core.scheme],
		.sequences = domain->sequences,
		.thread_sequences = domain->sequences && counter_thread_sequences(),
		.nr_cpus = domain->core.nr_cpus,
		.entries = domain->nr_entries,
		.cpu_bytes = domain->core.stride,
		.object_bytes = sizeof(struct lodic_counter),
	};
}

/* Threads without sequences count in packed words of the same domain. */
static bool use_sequences(const struct lodic_domain *d)
{
	return d->core.scheme == COUNTER_PAYGO && counter_thread_sequences();
}

static void release(struct lodic_domain *d, struct lodic_counter *counter)
{
	d->release(counter, d->arg);
}

EXPORT bool lodic_counter_try_get_call(struct lodic_domain *domain,
                                       struct lodic_counter *counter,
                                       uint64_t *ret_token)
{
	switch (counter_try_ref(&domain->core, &counter->word, use_sequences(domain),
	                        ret_token)) {
	case COUNTER_TAKEN: return true;
	case COUNTER_REFUSED_LAST: release(domain, counter); return false;
	default: return false;
	}
}

EXPORT uint64_t lodic_counter_get_call(struct lodic_domain *domain,
                                       struct lodic_counter *counter)
{
	return counter_ref(&domain->core, &counter->word, use_sequences(domain));
}

EXPORT void lodic_counter_put_call(struct lodic_domain *domain,
                                   struct lodic_counter *counter, uint64_t token)
{
	if (counter_unref(&domain->core, &counter->word, token, use_sequences(domain)))
		release(domain, counter);
}

EXPORT int lodic_counter_kill(struct lodic_domain *domain,
                              struct lodic_counter *counter)
{
	switch (counter_kill(&domain->core, &counter->word)) {
	case COUNTER_KILLED: return 0;
	case COUNTER_KILLED_LAST: release(domain, counter); return 0;
	case COUNTER_NO_FENCE: return -ENOSYS;
	default: return -EALREADY;
	}
}

EXPORT bool lodic_counter_query(struct lodic_domain *domain,
                                struct lodic_counter *counter)
{
	return counter_query(&domain->core, &counter->word);
}

EXPORT uint64_t lodic_counter_sum(struct lodic_domain *domain,
                                  struct lodic_counter *counter)
{
	return counter_sum(&domain->core, &counter->word);
}

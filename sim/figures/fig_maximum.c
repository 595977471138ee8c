/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * How high do counters get? The paper records the highest reference count of each page
 * under skewed reads, and finds it small (LODIC s.3, Fig. 3). The width of the counter
 * in the pte depends on that (LODIC s.4.3).
 *
 * Readers are drawn here, not simulated. At a random moment a thread holds a reference
 * with probability duty, to a page chosen by a Zipf law. Over many moments, the highest
 * total of each page and its highest count in one process are kept. Arithmetic stands
 * beside the draws: the binomial law says how often in an hour a counter of so many bits
 * would be full. Draws can never show what happens once an hour. The widths: 5 bits are what
 * x86-64 Linux has left, 7 the paper's, and one bit less and more to see what it costs.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/figures/fig.h"

/* A reference lasts 0.14 us (LODIC s.3, Fig. 4). 120 readers that do nothing else reach
 * 186 M reads/s (LODIC s.5.2.1), 0.645 us each. So a thread holds one for at most this
 * share of the time. */
#define DUTY_BUSY (0.14 / (120.0 / 186.0))
#define HOLD_NS 140.0
/* 17 000 pairs of 116 bytes in pages of 4096 (LODIC s.3). */
#define PAGES_KEY_VALUE 482u
#define PAIRS_KEY_VALUE 17000u
/* The paper gives no number of web pages. We take one page each, and five times as many
 * as it has clients. */
#define PAGES_WEB 500u
#define ZIPF_KEY_VALUE 0.98
#define ZIPF_WEB 0.77
#define NR_CLIENTS 100u
#define MOMENTS 40000u
#define MOMENTS_QUICK 2000u
/* The paper says of another measurement that it lasted 30 s (LODIC s.3, P3). */
#define RUN_NS 30e9
/* What a page's reference count has besides its readers: nothing, the page cache's own, and a
 * file system's buffers. The paper does not say which it took off. */
#define BASES_MAX 2u
/* What the paper says of a sloppy counter on its machine: 120 local counters a page. */
#define SLOPPY_LOCALS 120.0

struct pages {
	u32 nr;
	double *until; /* cumulated share of the accesses, up to and with this page */
	u32 *total, *total_max;
	u32 *local, *local_max; /* local: [page] of the process that is being drawn */
};

static void pages_free(struct pages *p)
{
	free(p->until);
	free(p->total);
	free(p->total_max);
	free(p->local);
	free(p->local_max);
}

static int pages_order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? 1 : x > y ? -1 : 0;
}

/* Throws nr_items items of Zipf's law onto nr pages at random, hottest page first. A
 * key's place in the file has nothing to do with its popularity. */
static int pages_make(struct pages *p, u32 nr, u32 nr_items, double alpha, u64 *random)
{
	double sum = 0;
	u32 i;

	memset(p, 0, sizeof(*p));
	p->nr = nr;
	p->until = calloc(nr, sizeof(*p->until));
	p->total = calloc(nr, sizeof(*p->total));
	p->total_max = calloc(nr, sizeof(*p->total_max));
	p->local = calloc(nr, sizeof(*p->local));
	p->local_max = calloc(nr, sizeof(*p->local_max));
	if (!p->until || !p->total || !p->total_max || !p->local || !p->local_max) {
		pages_free(p);
		return -ENOMEM;
	}
	for (i = 0; i < nr_items; i++) {
		u32 page = nr_items == nr ? i : (u32)(fig_random(random) % nr);
		double weight = pow(i + 1, -alpha);

		p->until[page] += weight;
		sum += weight;
	}
	qsort(p->until, nr, sizeof(*p->until), pages_order);
	for (i = 0; i < nr; i++)
		p->until[i] = p->until[i] / sum + (i ? p->until[i - 1] : 0);
	return 0;
}

static u32 pages_choose(const struct pages *p, double at)
{
	u32 low = 0, high = p->nr - 1;

	while (low < high) {
		u32 middle = (low + high) / 2;

		if (p->until[middle] < at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* One moment: every thread of every process is asked what it holds. */
static void pages_draw_moment(struct pages *p, u32 nr_processes, u32 nr_threads,
                              double duty, u64 *random)
{
	u32 process, thread, i;

	memset(p->total, 0, p->nr * sizeof(*p->total));
	for (process = 0; process < nr_processes; process++) {
		memset(p->local, 0, p->nr * sizeof(*p->local));
		for (thread = 0; thread < nr_threads; thread++) {
			u32 page;

			if (fig_random_unit(random) >= duty)
				continue;
			page = pages_choose(p, fig_random_unit(random));
			p->total[page]++;
			p->local[page]++;
			if (p->local[page] > p->local_max[page])
				p->local_max[page] = p->local[page];
		}
	}
	for (i = 0; i < p->nr; i++)
		if (p->total[i] > p->total_max[i])
			p->total_max[i] = p->total[i];
}

/* The natural logarithm of "at least k of n, each with probability q". */
static double log_at_least(u32 n, u32 k, double q)
{
	double most = -INFINITY, sum = 0;
	u32 i;

	for (i = k; i <= n; i++) {
		double one = lgamma(n + 1.0) - lgamma(i + 1.0) - lgamma(n - i + 1.0) +
		             i * log(q) + (n - i) * log1p(-q);

		if (one > most)
			most = one;
	}
	if (isinf(most))
		return most;
	for (i = k; i <= n; i++)
		sum += exp(lgamma(n + 1.0) - lgamma(i + 1.0) - lgamma(n - i + 1.0) +
		           i * log(q) + (n - i) * log1p(-q) - most);
	return most + log(sum);
}

/* How often in an hour a reference finds the hottest page's counter full: another
 * thread of the process comes while 2^bits - 1 hold it. It is looked at once in a
 * holding time. */
static double full_per_hour(u32 nr_threads, u32 bits, double q)
{
	u32 full = (1u << bits) - 1;
	double moments = 3600e9 / HOLD_NS;

	if (nr_threads <= full)
		return 0;
	return moments * exp(log_at_least(nr_threads - 1, full, q)) * nr_threads * q;
}

/* The highest total that a page is expected to reach in a run. It is the sum of the chances
 * that the page reaches 1, 2, and so on. The page is looked at once in a holding time. */
static double expected_maximum(double share, double duty)
{
	double moments = RUN_NS / HOLD_NS, sum = 0;
	u32 k;

	for (k = 1; k <= NR_CLIENTS; k++) {
		double reached =
			moments * exp(log_at_least(NR_CLIENTS, k, duty * share));

		sum += -expm1(-reached);
		if (reached < 1e-6)
			break;
	}
	return sum;
}

/* As the draws, but for a run of RUN_NS, which no number of draws is enough for. */
static int maximum_reckoned(struct fig_run *run, const char *series,
                            const struct pages *p, double duty, double paper)
{
	double sum = 0;
	u32 i, base;
	int err = 0;

	for (i = 0; i < p->nr; i++) {
		double share = p->until[i] - (i ? p->until[i - 1] : 0);

		if (share > 0)
			sum += expected_maximum(share, duty);
	}
	for (base = 0; base <= BASES_MAX && !err; base++)
		err = fig_add_value(run, "120 locals over needed, a run of 30 s",
		                    series, base, "ratio", FIG_CONSEQUENCE,
		                    SLOPPY_LOCALS / (sum / p->nr + base), paper);
	return err;
}

static int add_ranks(struct fig_run *run, const char *panel, const char *series,
                     const struct pages *p, const u32 *values)
{
	u32 i;
	int err = 0;

	/* Every page at first, then ever fewer of them. */
	for (i = 0; i < p->nr && !err; i += 1 + i / 10)
		err = fig_add_value(run, panel, series, i + 1, "refs", FIG_CONSEQUENCE,
		                    values[i], FIG_NO_PAPER);
	return err;
}

static double mean_of(const struct pages *p, const u32 *values)
{
	double sum = 0;
	u32 i;

	for (i = 0; i < p->nr; i++)
		sum += values[i];
	return sum / p->nr;
}

/* The paper's own experiment: 100 processes of one thread. */
static int maximum_total(struct fig_run *run, const char *load, u32 nr_pages,
                         u32 nr_items, double alpha, double paper)
{
	static const struct {
		const char *name;
		double duty;
	} duties[] = { { "read loop", DUTY_BUSY }, { "always holding", 1.0 } };
	u32 moments = run->options->quick ? MOMENTS_QUICK : MOMENTS;
	u64 random = run->seed;
	char series[FIG_NAME_BYTES];
	u32 d, i;
	int err = 0;

	for (d = 0; d < 2 && !err; d++) {
		struct pages p;

		err = pages_make(&p, nr_pages, nr_items, alpha, &random);
		if (err)
			return err;
		for (i = 0; i < moments; i++)
			pages_draw_moment(&p, NR_CLIENTS, 1, duties[d].duty, &random);
		snprintf(series, sizeof(series), "%s, %s", load, duties[d].name);
		err = add_ranks(run, "highest total by rank", series, &p, p.total_max);
		if (!err)
			err = fig_add_value(run, "120 locals over needed", series,
			                    duties[d].duty, "ratio", FIG_CONSEQUENCE,
			                    SLOPPY_LOCALS / mean_of(&p, p.total_max),
			                    paper);
		if (!err)
			err = maximum_reckoned(run, series, &p, duties[d].duty, paper);
		pages_free(&p);
	}
	return err;
}

/* The counter that LODIC has: one process's, with more and more threads. */
static int maximum_local(struct fig_run *run)
{
	static const u32 threads[] = {
		1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256
	};
	static const u32 widths[] = { 4, 5, 7, 8 };
	u32 moments = run->options->quick ? MOMENTS_QUICK : MOMENTS;
	char series[FIG_NAME_BYTES];
	u64 random = run->seed + 1;
	double hottest;
	size_t t, w;
	int err = 0;

	for (t = 0; t < sizeof(threads) / sizeof(*threads) && !err; t++) {
		struct pages p;
		u32 i;

		err = pages_make(&p, PAGES_KEY_VALUE, PAIRS_KEY_VALUE, ZIPF_KEY_VALUE,
		                 &random);
		if (err)
			return err;
		hottest = p.until[0];
		for (i = 0; i < moments / 4; i++)
			pages_draw_moment(&p, 4, threads[t], DUTY_BUSY, &random);
		err = fig_add_value(run, "highest local count, drawn", "zipf 0.98",
		                    threads[t], "refs", FIG_CONSEQUENCE, p.local_max[0],
		                    FIG_NO_PAPER);
		pages_free(&p);
		for (w = 0; w < sizeof(widths) / sizeof(*widths) && !err; w++) {
			snprintf(series, sizeof(series), "%u bits, zipf 0.98",
			         widths[w]);
			err = fig_add_value(run, "full counters in an hour", series,
			                    threads[t], "1/hour", FIG_ARITHMETIC,
			                    full_per_hour(threads[t], widths[w],
			                                  DUTY_BUSY * hottest),
			                    FIG_NO_PAPER);
			snprintf(series, sizeof(series), "%u bits, one page",
			         widths[w]);
			if (!err)
				err = fig_add_value(
					run, "full counters in an hour", series,
					threads[t], "1/hour", FIG_ARITHMETIC,
					full_per_hour(threads[t], widths[w], DUTY_BUSY),
					FIG_NO_PAPER);
		}
	}
	return err;
}

static int run_maximum(struct fig_run *run)
{
	int err = maximum_total(run, "key-value", PAGES_KEY_VALUE, PAIRS_KEY_VALUE,
	                        ZIPF_KEY_VALUE, 13.6);

	if (!err)
		err = maximum_total(run, "web", PAGES_WEB, PAGES_WEB, ZIPF_WEB, 12);
	if (!err)
		err = maximum_local(run);
	return err;
}

const struct fig fig_maximum = {
	.name = "maximum",
	.paper = "LODIC Fig. 3",
	.title = "How high reference counts get, and whether 5 bits are enough",
	.x = "rank of the page | share of time that a thread holds a page | "
	     "references of a page that are no reader's | threads in one process",
	.modelled =
		"which thread holds which page at independent random moments; Zipf 0.98 over "
		"17000 pairs on 482 pages, Zipf 0.77 over 500 pages; holding 0.14 us",
	.left_out =
		"the programs; bursts; threads that lose their CPU while they hold; the "
		"paper's number of web pages and length of run, which it does not give; why "
		"its 13.6 and 12 are lower still",
	.run = run_maximum,
};

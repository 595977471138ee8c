/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * From what was seen, and what reads cost here, to the gain. The model is a sum:
 *
 *   with lodic = CPU time - served reads * (time of pread - time of a served read)
 *                + what is paid once, at each start and for each file
 *
 * The times are those of each measured round at the mean size of the reads in each class of sizes.
 * So the rounds give a spread. A tight loop of reads is not a program, whose own work drives the
 * kernel's lines and the cache's out of the CPU. So the shim takes the time of some reads, in the
 * program and in the loop. Their ratio says where the program stands between two measured states,
 * hot and cold: a served read loses more by the cold than pread does. MODEL_PART is added to both
 * ends for what the model leaves out.
 *
 * There are two forecasts: for what the services say now, and for a configuration with the promises
 * that promise.c has chosen. Each is for a cache that has the files. The first run with an
 * empty cache reads each block from the kernel once.
 */
#include <math.h>
#include <stdio.h>

#include "cli/doctor/advice.h"
#include "cli/doctor/forecast.h"
#include "cli/doctor/promise.h"
#include "lodic/lodic.h"

/* By how much the saved time may be off: our estimate, see doc/doctor.md. */
#define MODEL_PART 0.2
/* No range is wider, and none is narrower. Nor is one narrower than what the CPU time of a program
 * differs by on this machine: nobody could check it. */
#define WIDEST DOCTOR_WIDEST
#define NARROWEST 1.04
/* Of a read's times: more than 4 times the median is a wait for a device or a CPU. */
#define WAIT_PLACES (2 * SEEN_STEPS)
#define LEAST_TIMES 100u
/* A read in the program may take so much less or more time than in a loop. Beyond that something
 * else was measured. */
#define LEAST_SLOWER 0.7
#define MOST_SLOWER 3.0
/* A program cannot save all that it takes. */
#define MOST_SAVED 0.95
/* So much of a file system's blocks must come again, or it is read once. */
#define AGAIN_PART 1.5

/* A time at so many bytes, between and beyond the measured sizes. */
static double between(const double *times, double bytes)
{
	unsigned int i = 0;
	double x;

	if (bytes < seen_size_ends[0])
		bytes = seen_size_ends[0];
	while (i < DOCTOR_SIZES - 2 && bytes > seen_size_ends[i + 1])
		i++;
	x = (bytes - seen_size_ends[i]) / (seen_size_ends[i + 1] - seen_size_ends[i]);
	return times[i] + x * (times[i + 1] - times[i]);
}

static double price_at(const struct doctor_price *p, enum doctor_state state,
                       enum doctor_way way, unsigned int round, double bytes)
{
	double times[DOCTOR_SIZES];

	for (unsigned int i = 0; i < DOCTOR_SIZES; i++)
		times[i] = p->ns[state][way][i][round];
	return between(times, bytes);
}

bool doctor_qualifies(const struct doctor_file *f, enum doctor_case in)
{
	bool own =
		!(f->asked && f->refused); /* a service that reads the settings now */

	if (f->asked && f->written)
		return false;
	if (!f->service_asked)
		return own || (in == DOCTOR_PROMISED && f->promised);
	if (!f->service_refused)
		return true;
	return in == DOCTOR_PROMISED && doctor_promise_helps(f->service_refused) &&
	       (own || f->promised);
}

uint64_t doctor_covered_bytes(const struct doctor *d)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < d->nr_files; i++)
		if (doctor_qualifies(&d->files[i], DOCTOR_NOW))
			bytes += d->files[i].counts.bytes[RUN_COULD];
	return bytes;
}

const char *doctor_file_why(const struct doctor_file *f)
{
	static char why[DOCTOR_WHY_BYTES];
	const uint64_t *bytes = f->counts.bytes;
	uint64_t most = 0;
	unsigned int reason = RUN_COULD;

	if (f->service_asked && f->service_refused)
		return f->service_why[0] ? f->service_why
		                         : lodic_strerror(f->service_refused);
	if (f->asked && f->refused && !f->service_asked)
		return f->refused_why[0] ? f->refused_why : lodic_strerror(f->refused);
	if (f->asked && f->written)
		return "it was written to meanwhile";
	for (unsigned int i = 0; i < RUN_NR_WHYS; i++)
		if (bytes[i] > most) {
			most = bytes[i];
			reason = i;
		}
	if (most && reason != RUN_COULD) {
		snprintf(why, sizeof(why), "%s", run_why_name(reason));
		for (char *c = why; *c; c++)
			*c = *c == '_' ? ' ' : *c;
		return why;
	}
	if (f->gone)
		return "it has gone, so nobody could ask; taken as cacheable";
	if (most &&
	    (double)most < AGAIN_PART * (double)(f->blocks * SEEN_BLOCK_BYTES) &&
	    most >= f->size)
		return "read once only: it helps the next run";
	return "";
}

/* Reads of RUN_COULD by size, of files that qualify; DOCTOR_CASES: of all. */
static struct doctor_counts reads_of(const struct doctor *d, enum doctor_case in)
{
	struct doctor_counts sum = { 0 };

	for (size_t i = 0; i < d->nr_files; i++)
		for (unsigned int k = 0; k < SEEN_SIZES; k++)
			if (in == DOCTOR_CASES || doctor_qualifies(&d->files[i], in)) {
				sum.size_reads[k] += d->files[i].counts.size_reads[k];
				sum.size_bytes[k] += d->files[i].counts.size_bytes[k];
			}
	return sum;
}

/* The mean of the times of a class that are no wait; 0: there are too few. */
static double usual_ns(const uint64_t *times)
{
	uint64_t nr = 0, until = 0;
	double sum = 0, used = 0;
	unsigned int median = 0;

	for (unsigned int i = 0; i < SEEN_TIMES; i++)
		nr += times[i];
	while (median < SEEN_TIMES - 1 && (until += times[median]) * 2 < nr)
		median++;
	for (unsigned int i = 0; i < SEEN_TIMES && i <= median + WAIT_PLACES; i++) {
		sum += (double)times[i] * seen_time_ns(i);
		used += (double)times[i];
	}
	return nr < LEAST_TIMES ? 0 : sum / used;
}

struct series_spread doctor_price_spread(const struct doctor_price *p,
                                         enum doctor_state state, enum doctor_way way,
                                         unsigned int size)
{
	double at[DOCTOR_ROUNDS];
	struct series s = { .at = at, .nr_rounds = DOCTOR_ROUNDS };

	for (unsigned int r = 0; r < DOCTOR_ROUNDS; r++)
		at[r] = p->ns[state][way][size][r];
	return series_spread(&s);
}

/* How many times longer pread takes in the cold, under the shim that takes times. */
static double cold_ratio(const struct doctor_price *p, double bytes)
{
	double times[DOCTOR_STATES][DOCTOR_SIZES];

	for (unsigned int s = 0; s < DOCTOR_STATES; s++)
		for (unsigned int i = 0; i < DOCTOR_SIZES; i++)
			times[s][i] =
				doctor_price_spread(p, s, DOCTOR_COUNTED, i).median;
	return fmax(1, between(times[DOCTOR_COLD], bytes) /
	                       between(times[DOCTOR_HOT], bytes));
}

/* The same shim took times in both. */
double doctor_slower(const struct doctor *d, unsigned int class, double bytes)
{
	const struct doctor_price *p = &d->price;
	double ours = usual_ns(d->times[class]);
	double loops[DOCTOR_SIZES], loop;

	for (unsigned int i = 0; i < DOCTOR_SIZES; i++)
		loops[i] = usual_ns(p->times[i]);
	loop = between(loops, bytes);
	if (ours <= 0 || loop <= 0)
		return 1;
	return fmax(LEAST_SLOWER, fmin(MOST_SLOWER, ours / loop));
}

/* What a read of so many bytes takes in the program. Beyond the cold state all ways grow alike. */
static double read_ns(const struct doctor_price *p, enum doctor_way way,
                      unsigned int round, double bytes, double slower)
{
	double hot = price_at(p, DOCTOR_HOT, way, round, bytes);
	double cold = price_at(p, DOCTOR_COLD, way, round, bytes);
	double most = cold_ratio(p, bytes);

	if (slower <= 1)
		return hot * slower;
	if (slower >= most)
		return fmax(hot, cold) * slower / most;
	return hot + fmax(0, cold - hot) * (slower - 1) / (most - 1);
}

/* What these reads take in a round, in ns. */
static double cost(const struct doctor *d, const struct doctor_counts *c,
                   enum doctor_way way, unsigned int round)
{
	double sum = 0;

	for (unsigned int i = 0; i < SEEN_SIZES; i++) {
		double n = (double)c->size_reads[i];
		double bytes = n > 0 ? (double)c->size_bytes[i] / n : 0;

		if (n > 0)
			sum += n * read_ns(&d->price, way, round, bytes,
			                   doctor_slower(d, i, bytes));
	}
	return sum;
}

/* What they take by one way more than by the other; DOCTOR_WAYS: than nothing. */
static struct series_spread spread(const struct doctor *d,
                                   const struct doctor_counts *c, enum doctor_way more,
                                   enum doctor_way less)
{
	double at[DOCTOR_ROUNDS];
	struct series s = { .at = at, .nr_rounds = DOCTOR_ROUNDS };
	struct series_spread result;
	double least = 1;

	for (unsigned int r = 0; r < DOCTOR_ROUNDS; r++) {
		at[r] = cost(d, c, more, r) -
		        (less < DOCTOR_WAYS ? cost(d, c, less, r) : 0);
		least = fmin(least, at[r]);
	}
	/* A series leaves out what is not above 0, and a round may well save less than nothing. */
	for (unsigned int r = 0; r < DOCTOR_ROUNDS; r++)
		at[r] += 1 - least;
	result = series_spread(&s);
	result.median -= 1 - least;
	result.low -= 1 - least;
	result.high -= 1 - least;
	return result;
}

/* What the shim's counting has taken of the program's CPU time. */
static double counting_ns(const struct doctor *d)
{
	struct doctor_counts all = reads_of(d, DOCTOR_CASES);
	double others = 0;

	for (unsigned int i = 0; i < RUN_COULD; i++)
		others += (double)d->counts.reads[i];
	return others * d->price.fstat_ns +
	       fmax(0, spread(d, &all, DOCTOR_COUNTED, DOCTOR_WAYS).median -
	                       spread(d, &all, DOCTOR_PLAIN, DOCTOR_WAYS).median);
}

/* /proc of a process shows no more than bytes and calls. What did not move an offset was pread, of
 * any file that it has open. */
static struct doctor_counts reads_by_proc(const struct doctor *d, enum doctor_case in)
{
	struct doctor_counts c = { 0 };
	uint64_t bytes = d->io.read_bytes, calls = d->io.reads;
	unsigned int size = 0;
	size_t i = 0;

	while (i < d->nr_files && !doctor_qualifies(&d->files[i], in))
		i++;
	if (i == d->nr_files || bytes <= d->moved_bytes || !calls)
		return c;
	while (size < SEEN_SIZES - 1 && bytes / calls > seen_size_ends[size])
		size++;
	c.size_bytes[size] = bytes - d->moved_bytes;
	c.size_reads[size] =
		(uint64_t)((double)calls * (double)c.size_bytes[size] / (double)bytes);
	return c;
}

/* What `lodic run` costs at the start of each process and each file, in ns. The first reads of a
 * file are not served, so they do not save what the others do. */
static double paid_once(const struct doctor *d)
{
	const struct doctor_price *p = &d->price;
	double reads = DOCTOR_NEW_READS *
	               (doctor_price_spread(p, DOCTOR_HOT, DOCTOR_PLAIN, 0).median -
	                doctor_price_spread(p, DOCTOR_HOT, DOCTOR_SERVED, 0).median);

	return p->start_ns * fmax(1, d->nr_served) +
	       d->nr_new * fmax(0, p->new_ns + reads);
}

static double ratio(double all, double saved)
{
	if (all <= 0)
		return 1;
	return all / (all - fmax(fmin(saved, MOST_SAVED * all), -all));
}

static uint64_t cache_needed(const struct doctor *d, enum doctor_case in)
{
	uint64_t blocks = 0;

	for (size_t i = 0; i < d->nr_files; i++)
		if (doctor_qualifies(&d->files[i], in))
			blocks += d->files[i].blocks;
	return blocks * SEEN_BLOCK_BYTES;
}

/* Of CPU time: saved by reads, and paid once. */
static void forecast_cpu(struct doctor_gain *g, double cpu, struct series_spread saved,
                         double once, double noise)
{
	double narrowest = fmin(WIDEST, fmax(NARROWEST, noise));

	g->rounds_low = ratio(cpu, saved.low - once);
	g->rounds_high = ratio(cpu, saved.high - once);
	g->expected = ratio(cpu, saved.median - once);
	g->low = ratio(cpu, saved.low * (1 - MODEL_PART) - once);
	g->high = ratio(cpu, saved.high * (1 + MODEL_PART) - once);
	g->low = fmax(g->low, g->expected / sqrt(WIDEST));
	g->low = fmin(g->low, g->expected / sqrt(narrowest));
	g->high = fmin(g->high, g->expected * sqrt(WIDEST));
	g->high = fmax(g->high, g->expected * sqrt(narrowest));
}

/* The part of the reads that come to a block for the first time. */
static double first_part(const struct doctor *d, const struct doctor_counts *c,
                         uint64_t cache_bytes)
{
	double blocks = (double)cache_bytes / SEEN_BLOCK_BYTES, accesses = 0;

	for (unsigned int i = 0; i < SEEN_SIZES; i++)
		accesses += fmax((double)c->size_reads[i],
		                 (double)c->size_bytes[i] / SEEN_BLOCK_BYTES);
	return accesses > 0 && !d->pid ? fmin(1, blocks / accesses) : 0;
}

/* cpu: the program's own time. */
static void forecast(const struct doctor *d, enum doctor_case in, double cpu,
                     struct doctor_gain *g)
{
	struct doctor_counts could = d->pid ? reads_by_proc(d, in) : reads_of(d, in);
	struct series_spread saved = spread(d, &could, DOCTOR_PLAIN, DOCTOR_SERVED);
	double once = d->pid ? 0 : paid_once(d);
	double wall, at_once;

	forecast_cpu(g, cpu, saved, once, d->price.noise);
	g->first_run = ratio(
		cpu, saved.median * (1 - first_part(d, &could, g->cache_bytes)) - once);
	/* Threads that run at once save their time at once. */
	wall = fmax((double)d->wall_ns - (double)d->cpu_ns + cpu, 1);
	at_once = fmax(1, (double)d->cpu_ns / (double)(d->wall_ns + 1));
	g->time_low = ratio(wall, cpu * (1 - 1 / g->low) / at_once);
	g->time_high = ratio(wall, cpu * (1 - 1 / g->high) / at_once);
}

void doctor_forecast(struct doctor *d)
{
	struct doctor_gain *const gains[DOCTOR_CASES] = { &d->gain, &d->promised_gain };
	double cpu;

	for (enum doctor_case in = DOCTOR_NOW; in < DOCTOR_CASES; in++) {
		*gains[in] =
			(struct doctor_gain){ 1, 1, 1, 1, 1, 1, 1, 1, 0, DOCTOR_FITS };
		gains[in]->cache_bytes = cache_needed(d, in);
		doctor_memory_judge(d, gains[in]);
	}
	if (!d->price.known && (d->pid || d->counts.reads[RUN_COULD]))
		return;
	d->counted_ns = (uint64_t)counting_ns(d);
	cpu = fmax((double)d->cpu_ns / 2, (double)d->cpu_ns - (double)d->counted_ns);
	for (enum doctor_case in = DOCTOR_NOW; in < DOCTOR_CASES; in++)
		forecast(d, in, cpu, gains[in]);
}

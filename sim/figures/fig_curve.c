/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A curve that nobody has fitted to. HM4725/refcount is another implementation of PAYGO, in
 * Linux 6.2. Its author measured FxMark's DRBH on ext4 with 24 cores, and a drop of 1 GB of page
 * cache. These numbers stand beside the model's. The machine is not stated, so 2x12 is assumed,
 * with the parameters of an older one and the work that was fitted there. The rates
 * follow from that work. What is a prediction is the shape.
 */
#include "sim/figures/fig_read.h"

#define BLOCK_COPY_BYTES 4096u
#define MAPS_ABOVE 4u
#define IDLE_SHARERS 4u
#define NR_CPUS 24u
/* HM4725/refcount: vanilla's peak and its last point, and PAYGO's last one. */
#define KNOWN_PEAK_THREADS 4
#define KNOWN_PEAK_MOPS 4.25
#define KNOWN_ATOMIC_MOPS 2.65
#define KNOWN_PAYGO_MOPS 27.0 /* "about" */
/* What PAYGO adds to a drop of 1 GB: from 0.135 to 0.57 s. */
#define KNOWN_DROP_MS (570.0 - 135.0)

static const u32 curve_cpus[] = { 1, 2, 3, 4, 6, 8, 12, 16, 20, 24 };
#define NR_POINTS (sizeof(curve_cpus) / sizeof(*curve_cpus))
enum { CURVE_ATOMIC, CURVE_PAYGO, CURVE_NR };
static const char *const curve_names[CURVE_NR] = { "atomic", "paygo" };

/* After the curves. */
enum {
	CURVE_PEAK = NR_POINTS * CURVE_NR, /* threads */
	CURVE_FALL,                        /* atomic's last point over its peak */
	CURVE_RATIO,                       /* paygo over atomic, last point */
	CURVE_DROP,                        /* ms that paygo's drop takes longer */
	CURVE_DROP_SERIAL,
	CURVE_NR_VALUES
};

static int curve_read(const struct sim_machine *machine, u64 seed, const char *scheme,
                      u32 nr_cpus, double *ret_mops)
{
	struct fig_read setup = {
		.scheme = count_scheme_find(scheme),
		.nr_objects = 1,
		.nr_users = nr_cpus,
		.nr_idle_users = IDLE_SHARERS,
		.copy_bytes = BLOCK_COPY_BYTES,
		.nr_maps_above = MAPS_ABOVE,
	};
	struct fig_read_result result;
	int err = fig_read_run(machine, seed, &setup, &result);

	*ret_mops = result.mops;
	return err;
}

static int curve_drop(const struct sim_machine *machine, u64 seed, double *ret_values)
{
	double atomic, paygo, serial;
	int err = fig_drop_of(machine, seed, NR_CPUS, &atomic, &paygo, &serial);

	ret_values[CURVE_DROP] = paygo - atomic;
	ret_values[CURVE_DROP_SERIAL] = serial - atomic;
	return err;
}

static int curve_measure(struct fig_run *run, const struct sim_machine *machine,
                         u64 seed, void *arg, double *ret_values)
{
	const double *last = &ret_values[(NR_POINTS - 1) * CURVE_NR];
	double peak = 0;
	size_t i;
	u32 s;
	int err = 0;

	(void)run;
	(void)arg;
	for (i = 0; i < NR_POINTS && !err; i++) {
		double *v = &ret_values[i * CURVE_NR];

		for (s = 0; s < CURVE_NR && !err; s++)
			err = curve_read(machine, seed, curve_names[s], curve_cpus[i],
			                 &v[s]);
		if (v[CURVE_ATOMIC] > peak) {
			peak = v[CURVE_ATOMIC];
			ret_values[CURVE_PEAK] = curve_cpus[i];
		}
	}
	if (err)
		return err;
	ret_values[CURVE_FALL] = last[CURVE_ATOMIC] / peak;
	ret_values[CURVE_RATIO] = last[CURVE_PAYGO] / last[CURVE_ATOMIC];
	return curve_drop(machine, seed, ret_values);
}

static double curve_known(u32 nr_cpus, u32 scheme)
{
	if (scheme == CURVE_PAYGO)
		return nr_cpus == NR_CPUS ? KNOWN_PAYGO_MOPS : FIG_NO_PAPER;
	return nr_cpus == KNOWN_PEAK_THREADS ? KNOWN_PEAK_MOPS
	       : nr_cpus == NR_CPUS          ? KNOWN_ATOMIC_MOPS
	                                     : FIG_NO_PAPER;
}

static int curve_add_shape(struct fig_run *run, const struct fig_band *bands)
{
	static const struct {
		const char *panel, *series, *unit;
		u32 value;
		enum fig_kind kind;
		double known;
	} rows[] = {
		{ "shape", "atomic's last point over its peak", "ratio", CURVE_FALL,
		  FIG_PREDICTED, KNOWN_ATOMIC_MOPS / KNOWN_PEAK_MOPS },
		{ "shape", "paygo over atomic, 24 threads", "ratio", CURVE_RATIO,
		  FIG_PREDICTED, KNOWN_PAYGO_MOPS / KNOWN_ATOMIC_MOPS },
		{ "atomic is best with", "atomic", "threads", CURVE_PEAK, FIG_PREDICTED,
		  KNOWN_PEAK_THREADS },
		{ "1 GB dropped, paygo less atomic", "misses overlap", "ms", CURVE_DROP,
		  FIG_PREDICTED, KNOWN_DROP_MS },
		{ "1 GB dropped, paygo less atomic", "one miss at a time", "ms",
		  CURVE_DROP_SERIAL, FIG_CONSEQUENCE, KNOWN_DROP_MS },
	};
	size_t i;
	int err = 0;

	for (i = 0; i < sizeof(rows) / sizeof(*rows) && !err; i++)
		err = fig_add(run, rows[i].panel, rows[i].series, NR_CPUS, rows[i].unit,
		              rows[i].kind, &bands[rows[i].value], rows[i].known);
	return err;
}

static int run_curve(struct fig_run *run)
{
	struct fig_band bands[CURVE_NR_VALUES];
	size_t i;
	u32 s;
	int err = fig_measure(run, curve_measure, NULL, CURVE_NR_VALUES, bands);

	for (i = 0; i < NR_POINTS; i++)
		for (s = 0; s < CURVE_NR && !err; s++)
			err = fig_add(run, "one block, by threads", curve_names[s],
			              curve_cpus[i], "Mops/s", FIG_CONSEQUENCE,
			              &bands[i * CURVE_NR + s],
			              curve_known(curve_cpus[i], s));
	return err ? err : curve_add_shape(run, bands);
}

const struct fig fig_curve24 = {
	.name = "curve24",
	.paper = "HM4725/refcount, 24 cores",
	.title =
		"All of 24 CPUs read one 4 KiB block: a curve that nothing was fitted to",
	.x = "threads, a process of one thread on each CPU",
	.modelled =
		"as LODIC Fig. 14 and `drop`, on 2 sockets of 12 CPUs, which are assumed; "
		"crosses: another PAYGO, in Linux 6.2, on a machine that is not stated",
	.left_out =
		"that machine's own latencies, clock and work for a read, so its absolute "
		"numbers; the freeing of pages, which vanilla's drop has too",
	.topology = "2x12",
	.simulated = true,
	.run = run_curve,
};

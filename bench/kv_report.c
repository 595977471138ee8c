/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* bench_kv's results for people and for machines. Contract: bench/kv.h. */
#include <errno.h>
#include <string.h>

#include "bench/kv.h"
#include "bench/measure/report.h"
#include "bench/measure/table.h"

#define UNITS \
	"mgets: 10^6 gets in a second of CPU time, of readers and service together, median " \
	"of slots; spread: interquartile range; over_pread, over_mmap: median of the " \
	"rounds' ratios; service_share: the service's part of the CPU time; copied_*: the " \
	"part of gets by pins that copied; kernel_reads: blocks read from the kernel, for " \
	"each block that readers came by; cached: the part of those blocks that is cached " \
	"at the end"
#define ROOMY_OVER_PREAD 2.0
#define ROOMY_OVER_MMAP 0.8
#define TIGHT_ZIPF_OVER_PREAD 1.0
#define TIGHT_RANDOM_OVER_PREAD 0.9
#define COLD_KERNEL_READS 2.0

static const char *const method_names[] = { "pread", "mmap", "lodic_read",
	                                    "lodic_pin" };
static const char *const draw_names[] = { "zipf", "random" };
static const char *const setting_names[] = { "roomy", "tight", "cold" };
static const char *const copy_names[] = { "border", "uncached", "refused" };

const char *kv_setting_name(enum kv_setting setting)
{
	return setting_names[setting];
}

static struct series_spread over(const struct kv *kv, enum kv_setting s, enum kv_draw d,
                                 enum kv_method a, enum kv_method b)
{
	return series_ratio(&kv->cells[s][d][a].rate, &kv->cells[s][d][b].rate);
}

static double copied(const struct kv_cell *c, enum kv_copy why)
{
	return (double)c->sum.copies[why] / (double)c->sum.nr_gets;
}

static void put_spread(struct table *t, const struct series_spread *s, double unit)
{
	if (s->known)
		table_cell(t, "%.2f", s->median / unit);
	else
		table_cell(t, "-");
}

static void put_percent(struct table *t, const struct series *s)
{
	struct series_spread spread = series_spread(s);

	if (spread.known)
		table_cell(t, "%.0f %%", 100 * spread.median);
	else
		table_cell(t, "-");
}

static void put_row(const struct kv *kv, enum kv_setting s, enum kv_draw d,
                    enum kv_method m, struct table *t)
{
	const struct kv_cell *c = &kv->cells[s][d][m];
	struct series_spread rate = series_spread(&c->rate);
	struct series_spread pread = over(kv, s, d, m, KV_PREAD);
	struct series_spread map = over(kv, s, d, m, KV_MMAP);
	struct series_spread kernel = series_spread(&c->kernel_reads);

	table_row(t);
	table_cell(t, "%s, %s", draw_names[d], method_names[m]);
	put_spread(t, &rate, 1e6);
	if (rate.known)
		table_cell(t, "%.2f", (rate.high - rate.low) / 1e6);
	else
		table_cell(t, "-");
	put_spread(t, &pread, 1);
	put_spread(t, &map, 1);
	put_percent(t, &c->service_share);
	for (u32 i = 0; i < KV_NR_COPIES; i++)
		table_cell(t, "%.2f %%", 100 * copied(c, i));
	if (s != KV_COLD) {
		table_cell(t, "%.3f",
		           (double)c->sum.nr_kernel / (double)c->sum.nr_gets);
		return;
	}
	put_spread(t, &kernel, 1);
	put_percent(t, &c->cached);
}

static void print_setting(const struct kv *kv, enum kv_setting s, FILE *to)
{
	struct table t = { 0 };

	fprintf(to, "\n%s: a cache of %.0f MiB, %s\n", setting_names[s],
	        (double)kv->cells[s][0][0].cache_bytes / (1 << 20),
	        s == KV_ROOMY   ? "with the file in it"
	        : s == KV_TIGHT ? "a fifth of the file"
	                        : "empty at first");
	table_row(&t);
	table_cell(&t, " ");
	table_cell(&t, "10^6/CPU s");
	table_cell(&t, "spread");
	table_cell(&t, "/pread");
	table_cell(&t, "/mmap");
	table_cell(&t, "service");
	for (u32 i = 0; i < KV_NR_COPIES; i++)
		table_cell(&t, "%s", copy_names[i]);
	table_cell(&t, s == KV_COLD ? "reads a block" : "reads a get");
	if (s == KV_COLD)
		table_cell(&t, "cached");
	for (u32 d = 0; d < KV_NR_DRAWS; d++)
		for (u32 m = s == KV_COLD ? KV_READ : KV_PREAD; m < KV_NR_METHODS; m++)
			put_row(kv, s, d, m, &t);
	table_print(&t, to);
}

void kv_print(const struct kv *kv, FILE *to)
{
	struct machine machine;

	machine_find(&machine);
	fprintf(to,
	        "%s, %u CPUs, %s; %u rounds of %.0f ms, %u cold ones, in %.1f s; seed "
	        "%llu\n"
	        "%llu records of %u bytes in a file of %.0f MiB on %s; the page cache has "
	        "%.0f %% of it;\n%u processes, every record verified\n",
	        machine.cpu, machine.nr_cpus, machine.kernel, kv->plan.rounds,
	        (double)kv->plan.slot_ns / 1e6, kv->plan.cold_rounds,
	        (double)kv->duration_ns / 1e9, (unsigned long long)kv->plan.seed,
	        (unsigned long long)kv->store.nr_records, KV_RECORD_BYTES,
	        (double)kv->store.bytes / (1 << 20), kv->store.filesystem,
	        100 * kv->warmth, kv->plan.nr_readers);
	for (u32 s = 0; s < KV_NR_SETTINGS; s++)
		if (kv->plan.settings[s])
			print_setting(kv, s, to);
	fputs("\n10^6/CPU s: gets in a second of CPU time, of readers and service together; "
	      "service: its part\nof that time; border, uncached, refused: gets by pins that "
	      "copied, and why; reads: blocks\nthat came from the kernel, for each get, or "
	      "for each block that readers came by\n",
	      to);
}

struct goal {
	enum kv_setting setting;
	enum kv_draw draw;
	const char *what;
	double value, bound;
	bool at_least;
	bool known, met;
};
#define MAX_GOALS 16u

static struct goal goal_of(enum kv_setting s, enum kv_draw d, const char *what,
                           struct series_spread value, double bound, bool at_least)
{
	struct goal g = {
		s, d, what, value.median, bound, at_least, value.known, true
	};

	if (g.known)
		g.met = at_least ? g.value >= bound : g.value <= bound;
	return g;
}

/* The better of the two: one of them is enough. */
static struct goal goal_roomy(const struct kv *kv, enum kv_draw d)
{
	struct goal a = goal_of(KV_ROOMY, d, "lodic_pin over pread",
	                        over(kv, KV_ROOMY, d, KV_PIN, KV_PREAD),
	                        ROOMY_OVER_PREAD, true);
	struct goal b =
		goal_of(KV_ROOMY, d, "lodic_pin over mmap",
	                over(kv, KV_ROOMY, d, KV_PIN, KV_MMAP), ROOMY_OVER_MMAP, true);

	return !b.known || a.value / a.bound > b.value / b.bound ? a : b;
}

static struct goal goal_tight(const struct kv *kv, enum kv_draw d)
{
	return goal_of(KV_TIGHT, d, "lodic_pin over pread",
	               over(kv, KV_TIGHT, d, KV_PIN, KV_PREAD),
	               d == KV_ZIPF ? TIGHT_ZIPF_OVER_PREAD : TIGHT_RANDOM_OVER_PREAD,
	               true);
}

static struct goal goal_cold(const struct kv *kv, enum kv_draw d, enum kv_method m)
{
	return goal_of(KV_COLD, d,
	               m == KV_PIN ? "lodic_pin, kernel reads of a block"
	                           : "lodic_read, kernel reads of a block",
	               series_spread(&kv->cells[KV_COLD][d][m].kernel_reads),
	               COLD_KERNEL_READS, false);
}

static struct goal goal_border(const struct kv *kv, enum kv_setting s, enum kv_draw d)
{
	const struct kv_cell *c = &kv->cells[s][d][KV_PIN];
	struct series_spread value = { .known = c->sum.nr_gets > 0 };

	value.median = value.known ? copied(c, KV_BORDER) : 0;
	return goal_of(s, d, "lodic_pin, gets that copy for a border", value, 0, false);
}

static u32 find_goals(const struct kv *kv, struct goal *goals)
{
	u32 nr = 0;

	for (u32 d = 0; d < KV_NR_DRAWS; d++) {
		if (kv->plan.settings[KV_ROOMY])
			goals[nr++] = goal_roomy(kv, d);
		if (kv->plan.settings[KV_TIGHT])
			goals[nr++] = goal_tight(kv, d);
		for (u32 m = KV_READ; m <= KV_PIN && kv->plan.settings[KV_COLD]; m++)
			goals[nr++] = goal_cold(kv, d, m);
		for (u32 s = 0; s < KV_NR_SETTINGS; s++)
			if (kv->plan.settings[s])
				goals[nr++] = goal_border(kv, s, d);
	}
	return nr;
}

u32 kv_goals(const struct kv *kv, FILE *to)
{
	struct goal goals[MAX_GOALS];
	u32 nr = find_goals(kv, goals), nr_missed = 0;

	for (u32 i = 0; i < nr; i++) {
		const struct goal *g = &goals[i];

		nr_missed += !g->met;
		if (to && g->known)
			fprintf(to, "%-6s %-7s %-40s %6.2f  %s %.1f  %s\n",
			        setting_names[g->setting], draw_names[g->draw], g->what,
			        g->value, g->at_least ? "at least" : "at most",
			        g->bound, g->met ? "ok" : "missed");
	}
	return nr_missed;
}

static void set_spread(json_t *o, const char *key, const struct series_spread *s,
                       double unit)
{
	json_object_set_new(o, key,
	                    s->known ? json_real(s->median / unit) : json_null());
}

static json_t *cell_json(const struct kv *kv, enum kv_setting s, enum kv_draw d,
                         enum kv_method m)
{
	const struct kv_cell *c = &kv->cells[s][d][m];
	struct series_spread rate = series_spread(&c->rate);
	struct series_spread pread = over(kv, s, d, m, KV_PREAD);
	struct series_spread map = over(kv, s, d, m, KV_MMAP);
	struct series_spread service = series_spread(&c->service_share);
	struct series_spread kernel = series_spread(&c->kernel_reads);
	struct series_spread cached = series_spread(&c->cached);
	json_t *o = json_object();

	json_object_set_new(o, "setting", json_string(setting_names[s]));
	json_object_set_new(o, "cache_bytes", json_integer((json_int_t)c->cache_bytes));
	json_object_set_new(o, "keys", json_string(draw_names[d]));
	json_object_set_new(o, "method", json_string(method_names[m]));
	set_spread(o, "mgets", &rate, 1e6);
	json_object_set_new(o, "spread",
	                    rate.known ? json_real((rate.high - rate.low) / 1e6)
	                               : json_null());
	json_object_set_new(o, "slots", json_integer(rate.nr));
	set_spread(o, "over_pread", &pread, 1);
	set_spread(o, "over_mmap", &map, 1);
	set_spread(o, "service_share", &service, 1);
	for (u32 i = 0; i < KV_NR_COPIES; i++) {
		char key[32];

		snprintf(key, sizeof(key), "copied_%s", copy_names[i]);
		json_object_set_new(o, key, json_real(copied(c, i)));
	}
	set_spread(o, "kernel_reads", &kernel, 1);
	set_spread(o, "cached", &cached, 1);
	return o;
}

static bool is_measured(const struct kv *kv, u32 s, u32 m)
{
	return kv->plan.settings[s] && (s != KV_COLD || m >= KV_READ);
}

static json_t *goals_json(const struct kv *kv)
{
	struct goal goals[MAX_GOALS];
	u32 nr = find_goals(kv, goals);
	json_t *list = json_array();

	for (u32 i = 0; i < nr; i++) {
		const struct goal *g = &goals[i];
		json_t *o = json_object();
		char what[80];

		snprintf(what, sizeof(what), "%s, %s: %s", setting_names[g->setting],
		         draw_names[g->draw], g->what);
		json_object_set_new(o, "what", json_string(what));
		json_object_set_new(o, "value",
		                    g->known ? json_real(g->value)
		                             : json_string("not measured"));
		json_object_set_new(o, g->at_least ? "at_least" : "at_most",
		                    json_real(g->bound));
		json_object_set_new(o, "met", json_boolean(g->met));
		json_array_append_new(list, o);
	}
	return list;
}

static void describe(const struct kv *kv, char *ret)
{
	snprintf(ret, REPORT_PARAMETERS_BYTES,
	         "rounds=%u cold_rounds=%u slot_ms=%llu processes=%u file_bytes=%llu "
	         "file_system=%s page_cache=%.2f",
	         kv->plan.rounds, kv->plan.cold_rounds,
	         (unsigned long long)kv->plan.slot_ns / 1000000, kv->plan.nr_readers,
	         (unsigned long long)kv->store.bytes, kv->store.filesystem, kv->warmth);
}

void kv_print_json(const struct kv *kv, FILE *to)
{
	json_t *o = json_object(), *results = json_array();
	char parameters[REPORT_PARAMETERS_BYTES];
	struct machine machine;
	struct report_run run = { &machine, parameters, kv->plan.seed };

	machine_find(&machine);
	describe(kv, parameters);
	for (u32 s = 0; s < KV_NR_SETTINGS; s++)
		for (u32 d = 0; d < KV_NR_DRAWS; d++)
			for (u32 m = 0; m < KV_NR_METHODS; m++)
				if (is_measured(kv, s, m))
					json_array_append_new(results,
					                      cell_json(kv, s, d, m));
	report_run_json(o, &run);
	json_object_set_new(o, "seconds", json_real((double)kv->duration_ns / 1e9));
	json_object_set_new(o, "units", json_string(UNITS));
	json_object_set_new(o, "results", results);
	json_object_set_new(o, "goals", goals_json(kv));
	report_print_json(o, to);
	json_decref(o);
}

static void csv_spread(const struct series_spread *s, double unit, FILE *f)
{
	if (s->known)
		fprintf(f, ",%.4g,%.4g,%.4g", s->median / unit, s->low / unit,
		        s->high / unit);
	else
		fputs(",,,", f);
}

static void csv_row(const struct kv *kv, enum kv_setting s, enum kv_draw d,
                    enum kv_method m, FILE *f)
{
	const struct kv_cell *c = &kv->cells[s][d][m];
	struct series_spread rate = series_spread(&c->rate);
	struct series_spread pread = over(kv, s, d, m, KV_PREAD);
	struct series_spread map = over(kv, s, d, m, KV_MMAP);
	struct series_spread service = series_spread(&c->service_share);
	struct series_spread kernel = series_spread(&c->kernel_reads);

	fprintf(f, "%s,%llu,%s,%s", setting_names[s],
	        (unsigned long long)c->cache_bytes, draw_names[d], method_names[m]);
	csv_spread(&rate, 1e6, f);
	csv_spread(&pread, 1, f);
	csv_spread(&map, 1, f);
	csv_spread(&service, 1, f);
	csv_spread(&kernel, 1, f);
	for (u32 i = 0; i < KV_NR_COPIES; i++)
		fprintf(f, ",%.4g", copied(c, i));
	fprintf(f, ",%u", rate.nr);
}

int kv_write_csv(const struct kv *kv, const char *path)
{
	FILE *f = fopen(path, "we");
	char parameters[REPORT_PARAMETERS_BYTES];
	struct machine machine;
	struct report_run run = { &machine, parameters, kv->plan.seed };
	int error;

	if (!f)
		return -errno;
	machine_find(&machine);
	describe(kv, parameters);
	fprintf(f, "# %s, %u CPUs, %s\n", machine.cpu, machine.nr_cpus, machine.kernel);
	fputs("setting,cache_bytes,keys,method,mgets,mgets_q1,mgets_q3,over_pread,"
	      "over_pread_q1,over_pread_q3,over_mmap,over_mmap_q1,over_mmap_q3,"
	      "service_share,service_share_q1,service_share_q3,kernel_reads,"
	      "kernel_reads_q1,kernel_reads_q3,copied_border,copied_uncached,"
	      "copied_refused,slots," REPORT_RUN_COLUMNS "\n",
	      f);
	for (u32 s = 0; s < KV_NR_SETTINGS; s++) {
		for (u32 d = 0; d < KV_NR_DRAWS; d++) {
			for (u32 m = 0; m < KV_NR_METHODS; m++) {
				if (!is_measured(kv, s, m))
					continue;
				csv_row(kv, s, d, m, f);
				report_end_row(&run, f);
			}
		}
	}
	error = ferror(f) ? -EIO : 0;
	if (fclose(f) != 0 && !error)
		error = -errno;
	return error;
}

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the shim did in one process, and what that cost. The shim says so once, at the end.
 * If it has mapped a file, or the budget had no room for one, it writes a line to stderr. If
 * there is a report's file and the program has read anything, it adds a line to that file
 * instead. line.h says how.
 */
#define _GNU_SOURCE
#include "preload/map_report.h"

#include "preload/line.h"
#include "preload/map_options.h"

/* How many unmappings the shim measures the page tables of. Each measurement reads a file
 * of /proc twice, which takes 0.1 ms. */
#define MEASURED_MAX 64u

static const char *const skip_names[MAP_NR_SKIPS] = {
	[MAP_NOT_REGULAR] = "not_regular",
	[MAP_WRITABLE] = "opened_for_writing",
	[MAP_TOO_SMALL] = "empty",
	[MAP_DIRECT] = "opened_direct",
	[MAP_FILE_SYSTEM] = "file_system",
	[MAP_EXCLUDED] = "excluded",
	[MAP_LIMITED] = "address_space_limited",
	[MAP_FAILED_MMAP] = "mmap_failed",
	[MAP_BUDGET_FULL] = "budget_full",
	[MAP_TABLE_FULL] = "too_many_files",
};

void map_count_read(bool mapped)
{
	struct map_state *s = shim.map.state;
	struct map_stripe *mine;

	if (!shim_thread.map_stripe)
		shim_thread.map_stripe =
			(u32)(host_fetch_add(&s->next_stripe, 1) % MAP_STRIPES) + 1;
	mine = &s->stripes[shim_thread.map_stripe - 1];
	/* Atomic, because threads may share one, and a signal may come between. The line is
	 * its own (M7). */
	host_fetch_add(mapped ? &mine->reads_mapped : &mine->reads_other, 1);
}

static void report_begin(void)
{
	line_begin("lodic map", shim.map.options.json);
}

static void report_end(void)
{
	line_end(shim.map.options.report, -1);
}

bool map_report_wants_tables(void)
{
	return shim.map.state->measured < MEASURED_MAX;
}

u64 map_report_tables(void)
{
	u64 kib = line_of_status("\nVmPTE:");

	return kib == LINE_UNKNOWN ? 0 : kib * 1024;
}

void map_report_file(const char *what, int fd, const struct map_file *f)
{
	if (!shim.map.options.verbose)
		return;
	report_begin();
	if (shim.map.options.json) {
		line_put(",\"event\":\"");
		line_put(what);
		line_put("\",\"path\":\"");
		line_put_name(map_path(fd), true);
		line_put("\"");
		line_put_member("bytes", f->bytes);
		line_put_member("pages_asked", f->nr_asked);
		line_put("}");
	} else {
		line_put(what);
		line_put(" ");
		line_put_name(map_path(fd), false);
		line_put(" (");
		line_put_bytes(f->bytes);
		line_put(")");
	}
	report_end();
}

/* Sums over all threads. */
struct sums {
	u64 reads_mapped, reads_other;
};

static void put_json(const struct sums *sums)
{
	const struct map_state *s = shim.map.state;

	line_put_member("kernel_has_lodic", shim.map.options.kernel_has_lodic);
	line_put_member("files", s->nr_files);
	line_put_member("mappings", s->mapped);
	line_put_member("evicted", s->evicted);
	line_put_member("files_at_once", s->peak.files);
	line_put_member("bytes_at_once", s->peak.bytes);
	line_put_member("budget_bytes", shim.map.options.budget_bytes);
	line_put_member("table_bytes_at_once", s->peak.tables * MAP_PAGE_BYTES);
	line_put_member("measured_mappings", s->measured);
	line_put_member("measured_table_bytes", s->measured_bytes);
	line_put_member("measured_table_bytes_expected",
	                s->measured_tables * MAP_PAGE_BYTES);
	line_put_member("reads_of_mapped", sums->reads_mapped);
	line_put_member("reads_other", sums->reads_other);
	line_put_member("asked", s->asked);
	line_put_member("ask_failed", s->ask_failed);
	line_put(",\"skipped\":{");
	for (u32 i = 0; i < MAP_NR_SKIPS; i++) {
		line_put(i ? ",\"" : "\"");
		line_put(skip_names[i]);
		line_put("\":");
		line_put_number(s->skips[i]);
	}
	line_put("}}");
}

static void put_skips(void)
{
	const struct map_state *s = shim.map.state;
	const char *between = "; skipped ";

	for (u32 i = 0; i < MAP_NR_SKIPS; i++) {
		if (!s->skips[i])
			continue;
		line_put(between);
		line_put_number(s->skips[i]);
		line_put(" ");
		for (const char *p = skip_names[i]; *p; p++)
			line_put(*p == '_' ? " " : (char[2]){ *p, '\0' });
		between = ", ";
	}
}

static void put_text(const struct sums *sums)
{
	const struct map_state *s = shim.map.state;

	line_put_number(s->nr_files);
	line_put(s->nr_files == 1 ? " file mapped, " : " files mapped, ");
	line_put_bytes(s->peak.bytes);
	line_put(" at once; ");
	line_put_number(sums->reads_mapped);
	line_put(" of ");
	line_put_number(sums->reads_mapped + sums->reads_other);
	line_put(" reads were of mapped files; page tables: ");
	line_put_bytes(s->peak.tables * MAP_PAGE_BYTES);
	line_put(" at once");
	if (s->measured) {
		line_put(", VmPTE fell by ");
		line_put_bytes(s->measured_bytes);
		line_put(" on unmapping ");
		line_put_bytes(s->measured_tables * MAP_PAGE_BYTES);
		line_put(" of them");
	}
	if (s->ask_failed) {
		line_put("; the kernel refused pages ");
		line_put_number(s->ask_failed);
		line_put(" times");
	}
	put_skips();
	if (s->skips[MAP_BUDGET_FULL]) {
		line_put("; --budget is ");
		line_put_bytes(shim.map.options.budget_bytes);
	}
	if (!shim.map.options.kernel_has_lodic)
		line_put("; this kernel has no LODIC, so mapping gains nothing");
}

/* The user must also hear that a file was left out for the budget they gave. */
static bool has_news(void)
{
	const struct map_state *s = shim.map.state;

	return s->mapped || s->skips[MAP_BUDGET_FULL] || shim.map.options.verbose;
}

bool map_report_is_due(bool on_stderr_only)
{
	/* Its stderr may also be another file by now. */
	return !shim.map.state->reported &&
	       (!on_stderr_only ||
	        (!shim.map.options.report[0] && line_stderr_is_ours() && has_news()));
}

void map_report_end(void)
{
	struct map_state *s = shim.map.state;
	struct sums sums = { 0 };

	s->reported = 1;
	for (u32 i = 0; i < MAP_STRIPES; i++) {
		sums.reads_mapped += host_load_relaxed(&s->stripes[i].reads_mapped);
		sums.reads_other += host_load_relaxed(&s->stripes[i].reads_other);
	}
	/* stderr belongs to the program: the shim writes nothing when it has done nothing. */
	if (!has_news() &&
	    (!shim.map.options.report[0] || sums.reads_mapped + sums.reads_other == 0))
		return;
	report_begin();
	if (shim.map.options.json)
		put_json(&sums);
	else
		put_text(&sums);
	report_end();
}

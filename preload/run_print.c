/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The lines of a report. As text each process prints what it has read, and the files that matter
 * most. A line for each file would bury them: a program in Python reads hundreds. As JSON, for
 * programs, it prints every file.
 *
 * Each file's line ends with what the user can do, for the reason that cost it most bytes.
 */
#define _GNU_SOURCE
#include "preload/run_print.h"

#include <string.h>

#include "lib/client/error.h"
#include "preload/line.h"
#include "preload/shim.h"

/* Of a file so much is served that nothing is to be done: one part in so many is not. */
#define SERVED_PARTS 20u

/* What to do about each reason. NULL: nothing; for RUN_REFUSED the reason itself says it. */
static const char *const hints[RUN_NR_MAP_WHYS] = {
	[RUN_KEEPS_OFFSET] =
		"read() stays with the kernel; pread() is served, and mmap() "
		"with --mmap",
	[RUN_FIRST_READ] =
		"a descriptor is served from its second read on: keep the file open",
	[RUN_NOT_CACHED] = "run it again, or cache the file before: lodic load FILE",
	[RUN_LOCKED] = "a file that the program locks is not served",
	[RUN_AWAY] = "no service runs; start one: lodic serve",
	[RUN_ASKED] = "the reads came before the service had answered: run it again",
	[RUN_WRITABLE] = "open it read-only",
	[RUN_DIRECT] = "open it without O_DIRECT",
	[RUN_TABLE_FULL] = "the program has too many files open at once",
	[RUN_STOPPED] = "doc/hazards.md says when the shim steps aside",
	[RUN_GONE] = "doc/hazards.md says which rights the shim needs",
	[RUN_SHARED] = "promise that it need not show changes: --mmap=GLOB",
	[RUN_OTHER_KIND] = "only mappings with PROT_READ alone are served",
	[RUN_SMALL] = "mappings are served of files from 1 MiB on",
	[RUN_NO_ROOM] = "let holds have more memory: lodic serve --holds SIZE",
};

static u64 sum(const u64 *numbers, u32 nr)
{
	u64 all = 0;

	for (u32 i = 0; i < nr; i++)
		all += numbers[i];
	return all;
}

static u64 sum_reads(const struct seen_counts *c)
{
	return sum(c->reads, RUN_NR_WHYS);
}

static u64 sum_maps(const struct seen_counts *c)
{
	return sum(c->maps, RUN_NR_MAP_WHYS);
}

void print_add(struct seen_counts *to, const struct seen *f)
{
	for (u32 i = 0; i < SEEN_STRIPES; i++) {
		const struct seen_counts *c = &f->counts[i];

		for (u32 k = 0; k < RUN_NR_WHYS; k++) {
			to->reads[k] += host_load_relaxed(&c->reads[k]);
			to->bytes[k] += host_load_relaxed(&c->bytes[k]);
		}
		for (u32 k = 0; k < RUN_NR_MAP_WHYS; k++)
			to->maps[k] += host_load_relaxed(&c->maps[k]);
		to->mapped_bytes += host_load_relaxed(&c->mapped_bytes);
	}
}

bool print_has_any(const struct seen_counts *c)
{
	return sum_reads(c) + sum_maps(c) > 0;
}

static const char *hint_of(const struct seen_counts *c)
{
	u64 bytes = sum(c->bytes, RUN_NR_WHYS);
	bool by_maps = c->bytes[RUN_SERVED] == bytes;
	const u64 *numbers = by_maps ? c->maps : c->bytes;
	u32 worst = RUN_SERVED + 1;

	for (u32 i = worst + 1; i < (by_maps ? RUN_NR_MAP_WHYS : RUN_NR_WHYS); i++)
		if (numbers[i] > numbers[worst])
			worst = i;
	if (numbers[worst] == 0 || (!by_maps && numbers[worst] < bytes / SERVED_PARTS))
		return NULL;
	return hints[worst];
}

static void put_name(const char *name)
{
	for (; *name; name++)
		line_put((char[2]){ *name == '_' ? ' ' : *name, '\0' });
}

/* What the kernel has done itself, and why. */
static void put_whys(const char *did, const u64 *numbers, u32 nr, u64 reason)
{
	const char *between = did;

	for (u32 i = RUN_SERVED + 1; i < nr; i++) {
		if (!numbers[i])
			continue;
		line_put(between);
		line_put_number(numbers[i]);
		line_put(" (");
		put_name(run_why_name(i));
		if (i == RUN_REFUSED && reason) {
			line_put(": ");
			line_put(reason_words(-(int)reason));
		}
		line_put(")");
		between = ", ";
	}
}

static void put_text(const struct seen_counts *c, u64 reason)
{
	line_put_number(c->reads[RUN_SERVED]);
	line_put(" of ");
	line_put_number(sum_reads(c));
	line_put(" reads served, ");
	line_put_bytes(c->bytes[RUN_SERVED]);
	line_put(" of ");
	line_put_bytes(sum(c->bytes, RUN_NR_WHYS));
	put_whys("; the kernel read ", c->reads, RUN_NR_WHYS, reason);
	if (!sum_maps(c))
		return;
	line_put("; ");
	line_put_number(c->maps[RUN_SERVED]);
	line_put(" of ");
	line_put_number(sum_maps(c));
	line_put(" mappings served, ");
	line_put_bytes(c->mapped_bytes);
	put_whys("; the kernel mapped ", c->maps, RUN_NR_MAP_WHYS, reason);
}

static void put_string(const char *name, const char *text)
{
	line_put(",\"");
	line_put(name);
	line_put("\":\"");
	line_put_name(text, true);
	line_put("\"");
}

static void put_json(const struct seen_counts *c, u64 reason)
{
	line_put_member("reads", sum_reads(c));
	line_put_member("bytes", sum(c->bytes, RUN_NR_WHYS));
	line_put_member("served_bytes", c->bytes[RUN_SERVED]);
	for (u32 i = 0; i < RUN_COULD; i++)
		line_put_member(run_why_name(i), c->reads[i]);
	line_put_member("refused_errno", (u64)-reason_error(-(int)reason));
	if (reason) {
		put_string("refused_reason", reason_name_of(-(int)reason));
		put_string("refused_why", reason_words(-(int)reason));
	}
	if (shim.mapping.on) {
		line_put(",\"mappings\":{\"all\":");
		line_put_number(sum_maps(c));
		line_put_member("served_bytes", c->mapped_bytes);
		for (u32 i = 0; i < RUN_NR_MAP_WHYS; i++)
			if (i == RUN_SERVED || c->maps[i])
				line_put_member(run_why_name(i), c->maps[i]);
		line_put("}");
	}
}

static bool end(const struct print_to *to)
{
	if (to->json)
		line_put("}");
	return line_end(to->path, to->kept);
}

bool print_note(const struct print_to *to, const char *note)
{
	static const struct seen_counts none;

	line_begin("lodic run", to->json);
	if (to->json) {
		put_string("path", "");
		put_string("note", note);
		put_json(&none, 0);
	} else {
		line_put("saw no read: ");
		line_put(note);
	}
	return end(to);
}

/* One file, or ("") all of the process. */
static bool print_file(const struct print_to *to, const char *path,
                       const struct seen_counts *c, u64 reason)
{
	const char *hint = *path ? hint_of(c) : NULL;

	line_begin("lodic run", to->json);
	if (to->json) {
		put_string("path", path);
		put_json(c, reason);
		if (hint)
			put_string("hint", hint);
		return end(to);
	}
	line_put_name(path, false);
	line_put(*path ? ": " : "");
	put_text(c, reason);
	if (hint) {
		line_put(" -- ");
		line_put(hint);
	}
	return end(to);
}

/* The files that have no line of their own. */
static bool print_others(const struct print_to *to, u64 nr, const struct seen_counts *c)
{
	line_begin("lodic run", false);
	line_put("and ");
	line_put_number(nr);
	line_put(nr == 1 ? " other file: " : " other files: ");
	put_text(c, 0);
	line_put(" -- --all prints them");
	return end(to);
}

/* Nobody read the report for a while. Perhaps there is room for this. */
static void print_lost(const struct print_to *to, u64 nr)
{
	line_begin("lodic run", to->json);
	if (to->json) {
		line_put_member("lost_lines", nr);
	} else {
		line_put_number(nr);
		line_put(" lines of the report are lost: nobody has read them");
	}
	end(to);
}

/* More than 0 for a file with a read or a mapping; those with most bytes have most. */
static u64 weight_of(const struct seen *f)
{
	struct seen_counts c = { 0 };

	print_add(&c, f);
	return sum(c.bytes, RUN_NR_WHYS) + c.mapped_bytes + sum_reads(&c) +
	       sum_maps(&c);
}

void print_files(const struct print_to *to, const struct seen *files,
                 const struct seen_counts *all)
{
	u64 most = to->json || to->all ? SEEN_FILES + 1 : PRINT_FILES;
	u64 *weights = shim.report.weights;
	u64 lost = !print_file(to, "", all, 0), nr_others = 0;
	struct seen_counts others = { 0 };

	for (u32 i = 0; i <= SEEN_FILES; i++) {
		bool there = i == SEEN_FILES || host_load_acquire(&files[i].owner) == 2;

		weights[i] = there ? weight_of(&files[i]) : 0;
	}
	/* Ends: each turn takes one away. */
	for (u64 printed = 0;; printed++) {
		struct seen_counts c = { 0 };
		u32 heaviest = 0;

		for (u32 i = 1; i <= SEEN_FILES; i++)
			if (weights[i] > weights[heaviest])
				heaviest = i;
		if (!weights[heaviest])
			break;
		weights[heaviest] = 0;
		print_add(printed < most ? &c : &others, &files[heaviest]);
		if (printed >= most)
			nr_others++;
		else
			lost += !print_file(to,
			                    heaviest < SEEN_FILES ? files[heaviest].path
			                                          : "other files",
			                    &c,
			                    host_load_relaxed(&files[heaviest].reason));
	}
	if (nr_others)
		lost += !print_others(to, nr_others, &others);
	if (lost)
		print_lost(to, lost);
}

void print_total(const struct print_to *to, u64 processes, const struct seen_counts *c)
{
	line_begin("lodic run", false);
	line_put("all ");
	line_put_number(processes);
	line_put(" processes together: ");
	put_text(c, 0);
	end(to);
}

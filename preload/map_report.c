/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the shim did in one process, and what that cost. The shim says so once, at the end.
 * If it has mapped a file, or the budget had no room for one, it writes a line to stderr. If
 * there is a report's file and the program has read anything, it adds a line to that file
 * instead. Each line is one write(), so that lines of many processes do not mix.
 *
 * stderr belongs to the program. If descriptor 2 is not what it was at the start, the shim
 * writes nothing: it may be closed by now, or a data file. If a program closes stderr
 * at exit, as the usual tools do, the line is written just before.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/map.h"

/* How many unmappings the shim measures the page tables of. Each measurement reads a file
 * of /proc twice, which takes 0.1 ms. */
#define MEASURED_MAX 64u
#define NAME_BYTES 64u

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

static char program_name[NAME_BYTES];
/* What descriptor 2 is at the start. */
static struct stat first_stderr;

static __thread u32 stripe; /* 1 more than its number; 0: none yet */

void map_count_read(bool mapped)
{
	struct map_state *s = map_state;
	struct map_stripe *mine;

	if (!stripe)
		stripe = (u32)(host_fetch_add(&s->next_stripe, 1) % MAP_STRIPES) + 1;
	mine = &s->stripes[stripe - 1];
	/* Atomic, because threads may share one, and a signal may come between. The line is
	 * its own (M7). */
	host_fetch_add(mapped ? &mine->reads_mapped : &mine->reads_other, 1);
}

void map_report_start(void)
{
	if (fstat(STDERR_FILENO, &first_stderr) != 0)
		first_stderr.st_nlink = 0;
	strncpy(program_name, program_invocation_short_name, NAME_BYTES - 1);
}

static void put(const char *text)
{
	struct map_state *s = map_state;
	size_t n = strlen(text);

	if (n > sizeof(s->text) - 1 - s->text_n)
		n = sizeof(s->text) - 1 - s->text_n;
	memcpy(s->text + s->text_n, text, n);
	s->text_n += n;
}

static void put_number(u64 n)
{
	char digits[24];
	char *p = digits + sizeof(digits) - 1;

	*p = '\0';
	do
		*--p = (char)('0' + n % 10);
	while (n /= 10);
	put(p);
}

/* "12.3 MiB" */
static void put_bytes(u64 bytes)
{
	static const char *const units[] = { " B", " KiB", " MiB", " GiB", " TiB" };
	u32 unit = 0;
	u64 tenths = 0;

	while (bytes >= 1024 && unit < 4) {
		tenths = bytes % 1024 * 10 / 1024;
		bytes /= 1024;
		unit++;
	}
	put_number(bytes);
	if (unit) {
		put(".");
		put_number(tenths);
	}
	put(units[unit]);
}

/* Puts the inside of a JSON string, and escapes what must not stand there. */
static void put_escaped(const char *text)
{
	char one[8] = { 0 };

	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c < ' ' || c > '~' || c == '"' || c == '\\')
			snprintf(one, sizeof(one), "\\u%04x", c);
		else
			snprintf(one, sizeof(one), "%c", c);
		put(one);
	}
}

static void put_member(const char *name, u64 n)
{
	put(",\"");
	put(name);
	put("\":");
	put_number(n);
}

static void begin(void)
{
	map_state->text_n = 0;
	if (map_options.json) {
		put("{\"program\":\"");
		put_escaped(program_name);
		put("\"");
		put_member("pid", (u64)getpid());
	} else {
		put("lodic map: ");
		put(program_name);
		put("[");
		put_number((u64)getpid());
		put("]: ");
	}
}

/* Is descriptor 2 what it was? */
static bool stderr_is_ours(void)
{
	struct stat st;

	return first_stderr.st_nlink && fstat(STDERR_FILENO, &st) == 0 &&
	       st.st_dev == first_stderr.st_dev && st.st_ino == first_stderr.st_ino &&
	       st.st_rdev == first_stderr.st_rdev;
}

/* Ends the line and writes it. All signals are blocked. The function takes away those that
 * its own write() brings (a broken pipe, a file at its limit): they are not meant for the
 * program. */
static void end(void)
{
	struct map_state *s = map_state;
	const struct timespec at_once = { 0 };
	sigset_t ours, before;
	int fd = STDERR_FILENO;

	s->text[s->text_n++] = '\n';
	sigpending(&before);
	if (map_options.report[0])
		fd = open(map_options.report,
		          O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK |
		                  O_NOCTTY,
		          0666);
	else if (!stderr_is_ours())
		return;
	if (fd < 0)
		return;
	sigemptyset(&ours);
	if (syscall(SYS_write, fd, s->text, s->text_n) < 0) {
		if (errno == EPIPE && !sigismember(&before, SIGPIPE))
			sigaddset(&ours, SIGPIPE);
		if (errno == EFBIG && !sigismember(&before, SIGXFSZ))
			sigaddset(&ours, SIGXFSZ);
		sigtimedwait(&ours, NULL, &at_once);
	}
	if (map_options.report[0])
		syscall(SYS_close, fd);
}

bool map_report_wants_tables(void)
{
	return map_state->measured < MEASURED_MAX;
}

u64 map_report_tables(void)
{
	static const char name[] = "\nVmPTE:";
	struct map_state *s = map_state;
	u64 kib = 0;
	const char *p;
	long n;
	int fd;

	/* Bare system calls, because those of libc would come by this shim. */
	fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/status",
	                  O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = syscall(SYS_read, fd, s->path, sizeof(s->path) - 1);
	syscall(SYS_close, fd);
	s->path[n > 0 ? n : 0] = '\0';
	p = strstr(s->path, name);
	for (p = p ? p + sizeof(name) - 1 : ""; *p == ' ' || *p == '\t'; p++)
		;
	for (; *p >= '0' && *p <= '9'; p++)
		kib = kib * 10 + (u64)(*p - '0');
	return kib * 1024;
}

void map_report_file(const char *what, int fd, const struct map_file *f)
{
	if (!map_options.verbose)
		return;
	begin();
	if (map_options.json) {
		put(",\"event\":\"");
		put(what);
		put("\",\"path\":\"");
		put_escaped(map_path(fd));
		put("\"");
		put_member("bytes", f->bytes);
		put_member("pages_asked", f->nr_asked);
		put("}");
	} else {
		put(what);
		put(" ");
		put(map_path(fd));
		put(" (");
		put_bytes(f->bytes);
		put(")");
	}
	end();
}

/* Sums over all threads. */
struct sums {
	u64 reads_mapped, reads_other;
};

static void put_json(const struct sums *sums)
{
	const struct map_state *s = map_state;

	put_member("kernel_has_lodic", map_options.kernel_has_lodic);
	put_member("files", s->nr_files);
	put_member("mappings", s->mapped);
	put_member("evicted", s->evicted);
	put_member("files_at_once", s->peak.files);
	put_member("bytes_at_once", s->peak.bytes);
	put_member("budget_bytes", map_options.budget_bytes);
	put_member("table_bytes_at_once", s->peak.tables * MAP_PAGE_BYTES);
	put_member("measured_mappings", s->measured);
	put_member("measured_table_bytes", s->measured_bytes);
	put_member("measured_table_bytes_expected",
	           s->measured_tables * MAP_PAGE_BYTES);
	put_member("reads_of_mapped", sums->reads_mapped);
	put_member("reads_other", sums->reads_other);
	put_member("asked", s->asked);
	put_member("ask_failed", s->ask_failed);
	put(",\"skipped\":{");
	for (u32 i = 0; i < MAP_NR_SKIPS; i++) {
		put(i ? ",\"" : "\"");
		put(skip_names[i]);
		put("\":");
		put_number(s->skips[i]);
	}
	put("}}");
}

static void put_skips(void)
{
	const struct map_state *s = map_state;
	const char *between = "; skipped ";

	for (u32 i = 0; i < MAP_NR_SKIPS; i++) {
		if (!s->skips[i])
			continue;
		put(between);
		put_number(s->skips[i]);
		put(" ");
		for (const char *p = skip_names[i]; *p; p++)
			put(*p == '_' ? " " : (char[2]){ *p, '\0' });
		between = ", ";
	}
}

static void put_text(const struct sums *sums)
{
	const struct map_state *s = map_state;

	put_number(s->nr_files);
	put(s->nr_files == 1 ? " file mapped, " : " files mapped, ");
	put_bytes(s->peak.bytes);
	put(" at once; ");
	put_number(sums->reads_mapped);
	put(" of ");
	put_number(sums->reads_mapped + sums->reads_other);
	put(" reads were of mapped files; page tables: ");
	put_bytes(s->peak.tables * MAP_PAGE_BYTES);
	put(" at once");
	if (s->measured) {
		put(", VmPTE fell by ");
		put_bytes(s->measured_bytes);
		put(" on unmapping ");
		put_bytes(s->measured_tables * MAP_PAGE_BYTES);
		put(" of them");
	}
	if (s->ask_failed) {
		put("; the kernel refused pages ");
		put_number(s->ask_failed);
		put(" times");
	}
	put_skips();
	if (s->skips[MAP_BUDGET_FULL]) {
		put("; --budget is ");
		put_bytes(map_options.budget_bytes);
	}
	if (!map_options.kernel_has_lodic)
		put("; this kernel has no LODIC, so mapping gains nothing");
}

/* The user must also hear that a file was left out for the budget they gave. */
static bool has_news(void)
{
	const struct map_state *s = map_state;

	return s->mapped || s->skips[MAP_BUDGET_FULL] || map_options.verbose;
}

void map_report_end(bool on_stderr_only)
{
	struct map_state *s = map_state;
	struct sums sums = { 0 };

	if (s->reported)
		return;
	/* A program that closes its stderr early is not at its end. Its stderr may also be
	 * another file by now. */
	if (on_stderr_only &&
	    (map_options.report[0] || !stderr_is_ours() || !has_news()))
		return;
	s->reported = 1;
	s->off = !on_stderr_only;
	map_pages_unmap_all();
	for (u32 i = 0; i < MAP_STRIPES; i++) {
		sums.reads_mapped += host_load_relaxed(&s->stripes[i].reads_mapped);
		sums.reads_other += host_load_relaxed(&s->stripes[i].reads_other);
	}
	/* stderr belongs to the program: the shim writes nothing when it has done nothing. */
	if (!has_news() &&
	    (!map_options.report[0] || sums.reads_mapped + sums.reads_other == 0))
		return;
	begin();
	if (map_options.json)
		put_json(&sums);
	else
		put_text(&sums);
	end();
}

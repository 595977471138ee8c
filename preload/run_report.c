/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the shim of `lodic run` served in one process, and what not, per file and reason. Each
 * process says so at its end, if the user has asked (--report). Then each read costs an fstat()
 * and a few words that threads share, so that a run with a report is slower than one without.
 *
 * A read is counted for the file that fstat() shows just after it.
 */
#define _GNU_SOURCE
#include "preload/fds.h"

#include "preload/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lodic/lodic.h"
#include "preload/line.h"
#include "preload/run_environment.h"

#define SEEN_FILES 4096u /* a power of two */
#define SEEN_TRIES 64u
#define SEEN_PATH_BYTES 256u

static const char *const why_names[RUN_NR_WHYS] = {
	[RUN_SERVED] = "served",
	[RUN_KEEPS_OFFSET] = "read_keeps_offset",
	[RUN_FIRST_READ] = "first_read_of_descriptor",
	[RUN_NOT_CACHED] = "not_cached_yet",
	[RUN_REFUSED] = "refused",
	[RUN_LOCKED] = "locked",
	[RUN_AWAY] = "service_away",
	[RUN_WRITABLE] = "opened_for_writing",
	[RUN_DIRECT] = "opened_direct",
	[RUN_NOT_REGULAR] = "not_regular",
	[RUN_UNUSUAL] = "unusual_read",
	[RUN_TABLE_FULL] = "too_many_files",
	[RUN_BUSY] = "busy",
	[RUN_STOPPED] = "stepped_aside",
};

/* A file that was read. Any thread counts; all words are atomic. */
struct seen {
	u64 owner; /* 0: free, 1: being filled, 2: filled */
	u64 dev, ino;
	u64 reason; /* the service's, for RUN_REFUSED: an errno */
	u64 reads[RUN_NR_WHYS];
	u64 bytes[RUN_NR_WHYS];
	char path[SEEN_PATH_BYTES];
};

/* The last one is of all files that have no place. The kernel wipes it in a child. */
static struct seen *seen;
static char report[RUN_TEXT_BYTES]; /* a path; "": stderr */
static bool json;
static u64 reported_pid;

void run_report_forked(void)
{
	reported_pid = 0;
}

bool run_report_start(void)
{
	const char *path = getenv(RUN_REPORT);
	const size_t bytes = (SEEN_FILES + 1) * sizeof(*seen);

	if (!path || !*path || strlen(path) >= sizeof(report))
		return false;
	if (strcmp(path, RUN_REPORT_STDERR) != 0)
		strcpy(report, path);
	json = getenv(RUN_JSON) != NULL;
	seen = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (seen == MAP_FAILED)
		return false;
	madvise(seen, bytes, MADV_WIPEONFORK);
	return true;
}

static void seen_fill(struct seen *f, int fd, const struct stat *st)
{
	char name[32];
	ssize_t n;

	f->dev = st->st_dev;
	f->ino = st->st_ino;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	n = readlink(name, f->path, sizeof(f->path) - 1);
	if (n < 0) /* no /proc */
		snprintf(f->path, sizeof(f->path), "inode %llu of device %llu",
		         (unsigned long long)st->st_ino,
		         (unsigned long long)st->st_dev);
	host_store_release(&f->owner, 2);
}

static struct seen *seen_find(int fd, const struct stat *st)
{
	u64 hash = ((u64)st->st_ino ^ (u64)st->st_dev << 32) *
	           UINT64_C(0x9e3779b97f4a7c15);
	u64 owner;

	for (u32 i = 0; i < SEEN_TRIES; i++) {
		struct seen *f = &seen[((hash >> 32) + i) & (SEEN_FILES - 1)];

		owner = host_load_acquire(&f->owner);
		if (owner == 0 && host_cas(&f->owner, 0, 1)) {
			seen_fill(f, fd, st);
			return f;
		}
		/* Another thread fills it: it may be for this file. Look there no more. */
		if (owner == 2 && f->dev == st->st_dev && f->ino == st->st_ino)
			return f;
		if (owner < 2)
			break;
	}
	return &seen[SEEN_FILES];
}

void run_report_note(int fd, u64 bytes, enum run_why why, int error)
{
	struct seen *f;
	struct stat st;

	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		return;
	f = seen_find(fd, &st);
	host_fetch_add(&f->reads[why], 1);
	host_fetch_add(&f->bytes[why], bytes);
	if (error)
		host_store_relaxed(&f->reason, (u64)error);
}

static u64 sum(const u64 *numbers)
{
	u64 all = 0;

	for (u32 i = 0; i < RUN_NR_WHYS; i++)
		all += numbers[i];
	return all;
}

static void put_name(const char *name)
{
	for (; *name; name++)
		line_put((char[2]){ *name == '_' ? ' ' : *name, '\0' });
}

static void put_text(const struct seen *f)
{
	const char *between = "; the kernel read ";

	line_put_number(f->reads[RUN_SERVED]);
	line_put(" of ");
	line_put_number(sum(f->reads));
	line_put(" reads served, ");
	line_put_bytes(f->bytes[RUN_SERVED]);
	line_put(" of ");
	line_put_bytes(sum(f->bytes));
	for (u32 i = RUN_SERVED + 1; i < RUN_NR_WHYS; i++) {
		if (!f->reads[i])
			continue;
		line_put(between);
		line_put_number(f->reads[i]);
		line_put(" (");
		put_name(why_names[i]);
		if (i == RUN_REFUSED && f->reason) {
			line_put(": ");
			line_put(lodic_strerror((int)f->reason));
		}
		line_put(")");
		between = ", ";
	}
}

static void put_json(const struct seen *f)
{
	line_put_member("reads", sum(f->reads));
	line_put_member("bytes", sum(f->bytes));
	line_put_member("served_bytes", f->bytes[RUN_SERVED]);
	for (u32 i = 0; i < RUN_NR_WHYS; i++)
		line_put_member(why_names[i], f->reads[i]);
	line_put_member("refused_errno", f->reason);
	line_put("}");
}

static bool put(const struct seen *f, const char *path)
{
	line_begin("lodic run", json);
	if (json) {
		line_put(",\"path\":\"");
		line_put_escaped(path);
		line_put("\"");
		put_json(f);
	} else {
		line_put(path);
		line_put(*path ? ": " : "");
		put_text(f);
	}
	return line_end(report);
}

/* Nobody read the report for a while. Perhaps there is room for this. */
static void put_lost(u64 nr)
{
	line_begin("lodic run", json);
	if (json) {
		line_put_member("lost_lines", nr);
		line_put("}");
	} else {
		line_put_number(nr);
		line_put(" lines of the report are lost: nobody has read them");
	}
	line_end(report);
}

void run_report_end(bool stderr_closing)
{
	static struct seen all;
	u64 lost = 0;

	if (reported_pid == (u64)getpid() || (stderr_closing && report[0]))
		return;
	if (!report[0] && !line_stderr_is_ours())
		return;
	memset(&all, 0, sizeof(all));
	for (u32 i = 0; i <= SEEN_FILES; i++)
		for (u32 k = 0; k < RUN_NR_WHYS; k++) {
			all.reads[k] += host_load_relaxed(&seen[i].reads[k]);
			all.bytes[k] += host_load_relaxed(&seen[i].bytes[k]);
		}
	if (sum(all.reads) == 0)
		return;
	reported_pid = (u64)getpid();
	lost += !put(&all, "");
	for (u32 i = 0; i < SEEN_FILES; i++)
		if (host_load_acquire(&seen[i].owner) == 2)
			lost += !put(&seen[i], seen[i].path);
	if (sum(seen[SEEN_FILES].reads))
		lost += !put(&seen[SEEN_FILES], "other files");
	if (lost)
		put_lost(lost);
}

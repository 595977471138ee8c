// SPDX-License-Identifier: GPL-2.0
/*
 * A stock program that knows nothing of LODIC takes local references under `lodic map`. It is
 * perl as Debian has it, with its shared libraries; tool/guest.py brings them into the guest.
 * The test shows that each of its reads then counts one reference. It also shows that none
 * does so without `lodic map`, or with fewer mappers than vm.lodic_mappers. It checks the
 * bytes and what the page tables cost. It does not disturb anything: race.c and hold.c do.
 * What the shim does to a program is tested in the project's tests/map.
 */
#include "test.h"

#define LODIC "/opt/lodic/lodic"
#define PERL "/usr/bin/perl"
#define CAT "/usr/bin/cat"
#define REPORT "/tmp/lodic-map-report"

/* The shim maps more than one table's worth at a table's start, and shares no table. */
#define TABLES 2ul
#define BYTES (TABLES * PMD_BYTES)
#define PAGES (BYTES / PAGE)
/* The most of the two levels above, where the mapping crosses a border. */
#define UPPER_TABLES 3
/* The shim maps the file at the first pass, and asks for the entries at the second. */
#define WARM 2
#define HOT 2
#define CAT_FILES 12
#define MOST 4     /* processes of a case */
#define LONGEST 32 /* words of a command */

/*
 * Passes over the file in reads of a page. It waits for a byte between WARM and HOT. It ends,
 * and its mapping with it, at the end of its input.
 */
static const char script[] =
	"open F, '<', $ARGV[0] or die $!;"
	"sub pass { sysseek F, 0, 0; syswrite STDOUT, $b while sysread F, $b, 4096 }"
	"pass for 1 .. $ARGV[1]; sysread STDIN, $c, 1; pass for 1 .. $ARGV[2];"
	"sysread STDIN, $c, 1";

struct map_case {
	const char *name;
	const char *fs;
	u32 procs;
	u32 mappers; /* vm.lodic_mappers */
	bool under;  /* `lodic map` */
	bool counts; /* each read of HOT takes a local reference */
};

static const struct map_case cases[] = {
	{ "mapped-ext4", "ext4", 1, 1, true, true },
	{ "mapped-xfs", "xfs", 1, 1, true, true },
	{ "mapped-tmpfs", "tmpfs", 1, 1, true, true },
	{ "not-mapped", "ext4", 1, 1, false, false },
	{ "mapped-by-four", "ext4", 4, 4, true, true },
	{ "mapped-by-three", "ext4", 3, 4, true, false },
};

struct child {
	pid_t pid;
	int in, out; /* we write its stdin, read its stdout */
};

static const u8 *expect;
static bool lodic;

/* -- processes --------------------------------------------------------------------------- */

static void child_start(struct child *c, char *const *command)
{
	int in[2], out[2];

	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
		ktap_bail("pipe");
	fflush(stdout);
	c->pid = fork();
	if (c->pid < 0)
		ktap_bail("fork");
	if (!c->pid) {
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		execv(command[0], command);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	c->in = in[1];
	c->out = out[0];
}

/* Reads the child's next bytes, which must be the file's, over and over. */
static void child_check(struct child *c, size_t bytes)
{
	static u8 got[16 * PAGE];
	size_t at = 0;

	while (at < bytes) {
		size_t offset = at % BYTES, most = sizeof(got);
		ssize_t n;

		if (most > BYTES - offset)
			most = BYTES - offset;
		if (most > bytes - at)
			most = bytes - at;
		n = read(c->out, got, most);
		if (n <= 0) {
			ktap_fail("process %d: %zu of %zu bytes came", c->pid, at,
			          bytes);
			return;
		}
		if (memcmp(got, expect + offset, n)) {
			ktap_fail("process %d: wrong bytes at %zu", c->pid, at);
			return;
		}
		at += n;
	}
}

static void child_end(struct child *c)
{
	int status;
	char extra;

	close(c->in);
	if (read(c->out, &extra, 1) > 0)
		ktap_fail("process %d wrote more than it read", c->pid);
	close(c->out);
	if (waitpid(c->pid, &status, 0) != c->pid || status)
		ktap_fail("process %d: status 0x%x", c->pid, status);
}

/* Fills in the words of `lodic map`, before the program's own. Returns how many. */
static u32 under_map(char **words)
{
	static char *const map[] = { LODIC,  "map", "--json", "--report",
		                     REPORT, "--",  NULL };
	u32 i;

	for (i = 0; map[i]; i++)
		words[i] = map[i];
	return i;
}

/* -- what it cost ------------------------------------------------------------------------ */

/* A number in a line of the shim's report, or -1. */
static long long report_number(const char *line, const char *name)
{
	char key[64];
	const char *p;

	snprintf(key, sizeof(key), "\"%s\":", name);
	p = strstr(line, key);
	return p ? strtoll(p + strlen(key), NULL, 10) : -1;
}

/* One line for each process. doc/map.md says what the two figures are. */
static void check_report(const struct map_case *c)
{
	FILE *f = fopen(REPORT, "re");
	char line[4096];
	u32 lines = 0;

	while (f && fgets(line, sizeof(line), f)) {
		long long expected = report_number(line, "table_bytes_at_once");
		long long fell = report_number(line, "measured_table_bytes");

		lines++;
		ktap_diag(
			"%s: %lld of %lld reads were of the mapped file; page tables for %lu "
			"KiB: %lld KiB expected, VmPTE fell by %lld KiB",
			c->name, report_number(line, "reads_of_mapped"),
			report_number(line, "reads_of_mapped") +
				report_number(line, "reads_other"),
			BYTES / 1024, expected / 1024, fell / 1024);
		if (expected != (long long)(TABLES * PAGE))
			ktap_fail("%lld bytes of page tables expected, not %lu",
			          expected, TABLES * PAGE);
		if (fell < expected ||
		    fell > expected + (long long)(UPPER_TABLES * PAGE))
			ktap_fail("VmPTE fell by %lld bytes, of %lld expected", fell,
			          expected);
	}
	if (f)
		fclose(f);
	unlink(REPORT);
	if (lines != c->procs)
		ktap_fail("%u processes reported, not %u", lines, c->procs);
}

/* -- the cases --------------------------------------------------------------------------- */

static void start_perl(struct child *child, const struct map_case *c, char *path)
{
	char warm[8], hot[8], *words[LONGEST] = { NULL };
	u32 n = c->under ? under_map(words) : 0;

	snprintf(warm, sizeof(warm), "%u", WARM);
	snprintf(hot, sizeof(hot), "%u", HOT);
	words[n++] = PERL;
	words[n++] = "-e";
	words[n++] = (char *)script;
	words[n++] = path;
	words[n++] = warm;
	words[n++] = hot;
	child_start(child, words);
}

static void check_references(const struct map_case *c, const struct counters *d)
{
	u64 reads = (u64)c->procs * HOT * PAGES;

	counters_diag(c->name, d);
	if (c->counts && (d->ref < reads || d->ref > reads + reads / 100))
		ktap_fail("%llu local references in %llu reads of a page",
		          (unsigned long long)d->ref, (unsigned long long)reads);
	if (!c->counts && d->ref)
		ktap_fail("%llu local references, not 0", (unsigned long long)d->ref);
	counters_check_quiet();
}

/* The kernel tries only for pages that are mapped: so without the shim we map the file. */
static void run_perls(const struct map_case *c, char *path)
{
	struct child children[MOST];
	struct counters before, d;
	u32 i;

	for (i = 0; i < c->procs; i++)
		start_perl(&children[i], c, path);
	for (i = 0; i < c->procs; i++)
		child_check(&children[i], WARM * BYTES);
	counters_read(&before);
	for (i = 0; i < c->procs; i++) {
		if (write(children[i].in, "g", 1) != 1)
			ktap_fail("go: %s", strerror(errno));
	}
	for (i = 0; i < c->procs; i++)
		child_check(&children[i], HOT * BYTES);
	for (i = 0; i < c->procs; i++)
		child_end(&children[i]);
	d = counters_since(&before);
	if (lodic)
		check_references(c, &d);
}

static void *map_whole(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *p = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);

	if (fd < 0 || p == MAP_FAILED || madvise(p, BYTES, MADV_POPULATE_READ))
		ktap_bail("mapping %s", path);
	close(fd);
	return p;
}

static void run_case(const struct map_case *c, int klog)
{
	struct test_fs fs;
	void *map = NULL;
	char path[160];
	int err = fs_mount(c->fs, &fs);

	if (err) {
		ktap_skip(c->name, strerror(-err));
		return;
	}
	snprintf(path, sizeof(path), "%s/map", fs.dir);
	if (file_make(path, expect, BYTES))
		ktap_bail("%s", path);
	text_write_number(SYSCTL_MAPPERS, c->mappers);
	if (!c->under)
		map = map_whole(path);
	run_perls(c, path);
	if (map)
		munmap(map, BYTES);
	if (c->under)
		check_report(c);
	file_check_exact(&fs, path, BYTES);
	unlink(path);
	fs_umount(&fs);
	klog_check(klog);
	ktap_result(c->name);
}

/*
 * cat opens its file anew for each pass, and a mapping goes with its descriptor. So the shim
 * gives little here. The case checks the bytes and prints how many references there were.
 */
static void run_cat(int klog)
{
	struct counters before, d;
	char path[160], *words[LONGEST] = { NULL };
	struct test_fs fs;
	struct child child;
	u32 n = under_map(words), i;

	if (fs_mount("ext4", &fs))
		ktap_bail("ext4");
	snprintf(path, sizeof(path), "%s/map", fs.dir);
	if (file_make(path, expect, BYTES))
		ktap_bail("%s", path);
	text_write_number(SYSCTL_MAPPERS, 1);
	words[n++] = CAT;
	for (i = 0; i < CAT_FILES; i++)
		words[n++] = path;
	counters_read(&before);
	child_start(&child, words);
	child_check(&child, CAT_FILES * BYTES);
	child_end(&child);
	d = counters_since(&before);
	if (lodic)
		counters_diag("cat", &d);
	counters_check_quiet();
	unlink(REPORT);
	unlink(path);
	fs_umount(&fs);
	klog_check(klog);
	ktap_result("cat");
}

int main(int argc, char **argv)
{
	int klog;
	u32 i;

	options_parse(argc, argv);
	if (access(LODIC, X_OK) || access(PERL, X_OK) || access(CAT, X_OK)) {
		printf("1..0 # SKIP no lodic, perl or cat where the guest has them\n");
		return KTAP_SKIPPED;
	}
	ktap_plan(NR(cases) + 1);
	opt.window = 0;
	lodic = switches_on();
	klog = klog_open();
	expect = data_expected(BYTES);
	for (i = 0; i < NR(cases); i++)
		run_case(&cases[i], klog);
	run_cat(klog);
	switches_restore();
	return ktap_end();
}

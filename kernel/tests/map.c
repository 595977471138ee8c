// SPDX-License-Identifier: GPL-2.0
/*
 * A stock program that was built knowing nothing of LODIC takes local references under
 * `lodic map`: perl as Debian has it, with its shared libraries (tool/guest.py brings all
 * that into the guest). Shows that each of its reads then counts one reference, that none
 * does without `lodic map` or with fewer mappers than vm.lodic_mappers, that its bytes are
 * right, and what it costs in page tables. It does not disturb anything: race.c and hold.c
 * do. What the shim does to a program is tests/map's subject, not this one's.
 */
#include "fs.h"

#define NR(a) (sizeof(a) / sizeof((a)[0]))
#define LODIC "/opt/lodic/lodic"
#define PERL "/usr/bin/perl"
#define CAT "/usr/bin/cat"
#define REPORT "/tmp/lodic-map-report"

/* Above one table's worth the shim maps at a table's start: so no table is shared. */
#define TABLES 2ul
#define BYTES (TABLES * PMD_BYTES)
#define PAGES (BYTES / PAGE)
/* At most: of the two levels above, where the mapping crosses a border. */
#define UPPER_TABLES 3
/* The first pass shows the shim that it is to map, the second has it ask for the entries. */
#define WARM 2
#define HOT 2
#define CAT_FILES 12
#define MOST 4     /* processes of a case */
#define LONGEST 32 /* words of a command */

/*
 * Passes over the file in reads of a page; waits for a byte between WARM and HOT, and for
 * the end of its input before it ends, as its mapping does.
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
		bail("pipe");
	fflush(stdout);
	c->pid = fork();
	if (c->pid < 0)
		bail("fork");
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

/* Reads the child's next bytes, which are to be the file's, again and again. */
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
			fail("process %d: %zu of %zu bytes came", c->pid, at, bytes);
			return;
		}
		if (memcmp(got, expect + offset, n)) {
			fail("process %d: wrong bytes at %zu", c->pid, at);
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
		fail("process %d wrote more than it read", c->pid);
	close(c->out);
	if (waitpid(c->pid, &status, 0) != c->pid || status)
		fail("process %d: status 0x%x", c->pid, status);
}

/* The words before the program's own. Returns how many. */
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
		diag("%s: %lld of %lld reads were of the mapped file; page tables for %lu "
		     "KiB: %lld KiB expected, VmPTE fell by %lld KiB",
		     c->name, report_number(line, "reads_of_mapped"),
		     report_number(line, "reads_of_mapped") +
		             report_number(line, "reads_other"),
		     BYTES / 1024, expected / 1024, fell / 1024);
		if (expected != (long long)(TABLES * PAGE))
			fail("%lld bytes of page tables expected, not %lu", expected,
			     TABLES * PAGE);
		if (fell < expected ||
		    fell > expected + (long long)(UPPER_TABLES * PAGE))
			fail("VmPTE fell by %lld bytes, of %lld expected", fell,
			     expected);
	}
	if (f)
		fclose(f);
	unlink(REPORT);
	if (lines != c->procs)
		fail("%u processes reported, not %u", lines, c->procs);
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

static void check_references(const struct map_case *c, const struct lodic_counters *d)
{
	u64 reads = (u64)c->procs * HOT * PAGES;

	lodic_diag(c->name, d);
	if (c->counts && (d->ref < reads || d->ref > reads + reads / 100))
		fail("%llu local references in %llu reads of a page",
		     (unsigned long long)d->ref, (unsigned long long)reads);
	if (!c->counts && d->ref)
		fail("%llu local references, not 0", (unsigned long long)d->ref);
	lodic_check_quiet();
}

/* Someone else maps the file all along: pages that nobody maps are not even tried. */
static void run_perls(const struct map_case *c, char *path)
{
	struct child children[MOST];
	struct lodic_counters before, d;
	u32 i;

	for (i = 0; i < c->procs; i++)
		start_perl(&children[i], c, path);
	for (i = 0; i < c->procs; i++)
		child_check(&children[i], WARM * BYTES);
	lodic_read(&before);
	for (i = 0; i < c->procs; i++) {
		if (write(children[i].in, "g", 1) != 1)
			fail("go: %s", strerror(errno));
	}
	for (i = 0; i < c->procs; i++)
		child_check(&children[i], HOT * BYTES);
	for (i = 0; i < c->procs; i++)
		child_end(&children[i]);
	d = lodic_since(&before);
	if (lodic)
		check_references(c, &d);
}

static void *map_whole(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *p = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);

	if (fd < 0 || p == MAP_FAILED || madvise(p, BYTES, MADV_POPULATE_READ))
		bail("mapping %s", path);
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
		bail("%s", path);
	write_number(SYSCTL_MAPPERS, c->mappers);
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
 * cat opens its file anew for each pass. A mapping goes with its descriptor, so it gives
 * little here: shown are the bytes, and how many references there were.
 */
static void run_cat(int klog)
{
	struct lodic_counters before, d;
	char path[160], *words[LONGEST] = { NULL };
	struct test_fs fs;
	struct child child;
	u32 n = under_map(words), i;

	if (fs_mount("ext4", &fs))
		bail("ext4");
	snprintf(path, sizeof(path), "%s/map", fs.dir);
	if (file_make(path, expect, BYTES))
		bail("%s", path);
	write_number(SYSCTL_MAPPERS, 1);
	words[n++] = CAT;
	for (i = 0; i < CAT_FILES; i++)
		words[n++] = path;
	lodic_read(&before);
	child_start(&child, words);
	child_check(&child, CAT_FILES * BYTES);
	child_end(&child);
	d = lodic_since(&before);
	if (lodic)
		lodic_diag("cat", &d);
	lodic_check_quiet();
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

	parse_options(argc, argv);
	if (access(LODIC, X_OK) || access(PERL, X_OK) || access(CAT, X_OK)) {
		printf("1..0 # SKIP no lodic, perl or cat where the guest has them\n");
		return 4;
	}
	ktap_plan(NR(cases) + 1);
	opt.window = 0;
	lodic = lodic_setup();
	klog = klog_open();
	expect = data_expected(BYTES);
	for (i = 0; i < NR(cases); i++)
		run_case(&cases[i], klog);
	run_cat(klog);
	lodic_restore();
	return ktap_end();
}

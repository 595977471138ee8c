// SPDX-License-Identifier: GPL-2.0
/*
 * Reads of one shared block by more and more processes, after FxMark's DRBH. Each process is
 * pinned, has a descriptor of its own and maps the file. The program prints CSV: operations
 * per second and the share of local references. On a big machine that is the measurement.
 * Under TCG only the counters and the data mean anything, so the test checks only those.
 *
 *     drbh [-f FILE] [-b BYTES] [-p PROCESSES] [-t SECONDS] [-k low|medium|high] [-u] [-v]
 *
 *     -k high    all processes read one block (DRBH)
 *     -k medium  each reads a block of its own, in one file (DRBM)
 *     -k low     each reads a file of its own (DRBL)
 *     -u         do not map the file, for comparison
 *     -v         check every block that is read, instead of each 64th
 */
#include "test.h"

#include <signal.h>
#include <sys/prctl.h>

#define MAX_PROCS 1024
#define MOST_BYTES (64ul << 10)
#define MAPPERS \
	4 /* who do not read, so that the threshold is reached by one reader too */

struct worker {
	_Alignas(128) atomic_ulong ops, bad;
	atomic_int ready;
};

struct shared {
	atomic_int go, stop;
	struct worker workers[MAX_PROCS + MAPPERS];
};

enum level { LOW, MEDIUM, HIGH };
static const char *const level_names[] = { "low", "medium", "high" };

static struct {
	const char *file;
	size_t bytes;
	u32 procs;
	enum level level;
	bool unmapped, verify, csv;
} run = { .bytes = PAGE, .level = HIGH };

static struct shared *shared;
static bool lodic; /* its counters say which reads were local */
static u8 *expect; /* of one file: MAX_PROCS blocks at most */
static size_t file_bytes;

static void file_name(char *to, size_t bytes, u32 worker)
{
	if (run.level == LOW)
		snprintf(to, bytes, "%s.%u", run.file, worker);
	else
		snprintf(to, bytes, "%s", run.file);
}

static int open_mapped(u32 worker)
{
	char path[220], *p;
	int fd;

	file_name(path, sizeof(path), worker);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		_exit(1);
	if (run.unmapped)
		return fd;
	p = mmap(NULL, file_bytes, PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED || madvise(p, file_bytes, MADV_POPULATE_READ))
		_exit(1);
	return fd;
}

static void work(u32 index)
{
	struct worker *w = &shared->workers[index];
	u64 offset = run.level == MEDIUM ? index * run.bytes : 0;
	int fd = open_mapped(index);
	u8 *to = aligned_alloc(PAGE, MOST_BYTES);
	unsigned long ops = 0, bad = 0;

	memset(to, 0, MOST_BYTES);
	atomic_store(&w->ready, 1);
	while (!atomic_load_explicit(&shared->go, memory_order_relaxed))
		sched_yield();
	while (!atomic_load_explicit(&shared->stop, memory_order_relaxed)) {
		if (pread(fd, to, run.bytes, offset) != (ssize_t)run.bytes)
			bad++;
		else if ((run.verify || ops % 64 == 0) &&
		         memcmp(to, expect + offset, run.bytes))
			bad++;
		ops++;
	}
	atomic_store(&w->ops, ops);
	atomic_store(&w->bad, bad);
}

static pid_t start(u32 index, bool reads)
{
	pid_t pid = fork();

	if (pid < 0)
		ktap_bail("fork");
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!reads) {
		open_mapped(0);
		atomic_store(&shared->workers[index].ready, 1);
		for (;;)
			pause();
	}
	cpu_pin(index);
	work(index);
	_exit(0);
}

static void wait_ready(u32 nr)
{
	u64 end = clock_now_ns() + 60000000000ull;
	u32 i;

	for (i = 0; i < nr; i++) {
		while (!atomic_load(&shared->workers[i].ready) && clock_now_ns() < end)
			clock_sleep_ms(1);
	}
}

/* One line of CSV: nr processes for opt.seconds. */
static void measure(u32 nr)
{
	static pid_t pids[MAX_PROCS + MAPPERS];
	u32 all = nr + (run.level == LOW ? 0 : MAPPERS), i;
	struct counters before, d;
	unsigned long ops = 0, bad = 0;
	u64 began, ns;

	memset(shared, 0, sizeof(*shared));
	fflush(stdout);
	for (i = 0; i < all; i++)
		pids[i] = start(i, i < nr);
	wait_ready(all);
	counters_read(&before);
	began = clock_now_ns();
	atomic_store(&shared->go, 1);
	clock_sleep_ms(opt.seconds * 1000);
	atomic_store(&shared->stop, 1);
	ns = clock_now_ns() - began;
	for (i = 0; i < all; i++) {
		if (i >= nr)
			kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
		ops += atomic_load(&shared->workers[i].ops);
		bad += atomic_load(&shared->workers[i].bad);
	}
	d = counters_since(&before);
	printf("%s%s,%s,%zu,%u,%lu,%.0f,%.4f\n", run.csv ? "" : "# ",
	       level_names[run.level], run.unmapped ? "unmapped" : "mapped", run.bytes,
	       nr, ops, ops * 1e9 / ns, ops ? (double)d.ref / ops : 0);
	fflush(stdout);
	if (bad)
		ktap_fail("%lu of %lu reads were wrong", bad, ops);
	if (!ops)
		ktap_fail("nobody read anything");
	if (!run.unmapped && run.level != LOW && lodic &&
	    text_read_number(SYSCTL_FOLIOREF) == 1 && d.ref < ops / 10 * 9)
		ktap_fail("%u processes: %llu local references for %lu reads", nr,
		          (unsigned long long)d.ref, ops);
}

static void usage_here(void)
{
	fprintf(stderr, "usage: drbh [-f FILE] [-b BYTES] [-p PROCESSES] [-t SECONDS]\n"
	                "            [-k low|medium|high] [-u] [-v]\n");
	exit(2);
}

static void options(int argc, char **argv)
{
	int c, i;

	opt.seconds = 1;
	options_scale();
	opt.mappers = MAPPERS;
	opt.window = 0;
	while ((c = getopt(argc, argv, "f:b:p:t:k:uv")) != -1) {
		switch (c) {
		case 'f': run.file = optarg; break;
		case 'b': run.bytes = atol(optarg); break;
		case 'p': run.procs = atoi(optarg); break;
		case 't': opt.seconds = atoi(optarg); break;
		case 'u': run.unmapped = true; break;
		case 'v': run.verify = true; break;
		case 'k':
			for (i = LOW; i <= HIGH && strcmp(optarg, level_names[i]); i++)
				;
			run.level = i;
			break;
		default: usage_here();
		}
	}
	if (optind != argc || run.level > HIGH || !run.bytes || run.bytes > MOST_BYTES)
		usage_here();
	run.csv = run.file;
	if (!run.procs)
		run.procs = run.csv ? cpu_nr() : 4;
	if (run.procs > MAX_PROCS)
		usage_here();
}

static void make_files(void)
{
	char path[220];
	u32 i;

	file_bytes = run.level == MEDIUM ? run.procs * run.bytes : run.bytes;
	file_bytes = (file_bytes + PAGE - 1) / PAGE * PAGE;
	expect = data_expected(file_bytes);
	for (i = 0; i < (run.level == LOW ? run.procs : 1); i++) {
		file_name(path, sizeof(path), i);
		if (file_make(path, expect, file_bytes))
			ktap_bail("%s", path);
	}
}

static void remove_files(void)
{
	char path[220];
	u32 i;

	for (i = 0; i < (run.level == LOW ? run.procs : 1); i++) {
		file_name(path, sizeof(path), i);
		unlink(path);
	}
}

/* 1, 2, 4 ... and the most. */
static void measure_all(void)
{
	u32 nr;

	make_files();
	for (nr = 1; nr < run.procs; nr *= 2)
		measure(nr);
	measure(run.procs);
	remove_files();
}

/* Without -f: as a test, on a file that it makes. */
static int test(void)
{
	static const struct {
		const char *name;
		enum level level;
		bool unmapped;
	} parts[] = {
		{ "high", HIGH, false },
		{ "high-unmapped", HIGH, true },
		{ "medium", MEDIUM, false },
		{ "low", LOW, false },
	};
	static char path[160];
	struct test_fs fs;
	int err, klog;
	u32 i;

	ktap_plan(5);
	lodic = switches_on();
	klog = klog_open();
	err = fs_mount("ext4", &fs);
	if (err)
		ktap_bail("no ext4 (%s)", strerror(-err));
	snprintf(path, sizeof(path), "%s/drbh", fs.dir);
	run.file = path;
	run.verify = true;
	for (i = 0; i < 4; i++) {
		run.level = parts[i].level;
		run.unmapped = parts[i].unmapped;
		measure_all();
		counters_check_quiet();
		klog_check(klog);
		ktap_result(parts[i].name);
	}
	fs_umount(&fs);
	ktap_result("umount");
	switches_restore();
	return ktap_end();
}

int main(int argc, char **argv)
{
	options(argc, argv);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
	              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		ktap_bail("no memory");
	if (!run.csv)
		return test();
	printf("level,mapping,bytes,processes,operations,per_second,local_share\n");
	measure_all();
	return ktap_failing() ? 1 : 0;
}

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What every test program in the guest needs: options, KTAP lines, files of one number,
 * LODIC's counters and its switches, the kernel's log, mounting. Programs are static and
 * run as root in a guest made for them; with -d DIR they run on any kernel, and what needs
 * LODIC is left out with "# no LODIC".
 */
#ifndef LODIC_TESTS_LIB_H
#define LODIC_TESTS_LIB_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef uint64_t u64;
typedef uint32_t u32;
typedef uint8_t u8;

#define PAGE 4096ul
#define PMD_BYTES (2ul << 20)
#define unused __attribute__((unused))

/* Newer than the libc that the guest's programs are built with. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MADV_HWPOISON
#define MADV_HWPOISON 100
#endif
#ifndef MADV_SOFT_OFFLINE
#define MADV_SOFT_OFFLINE 101
#endif

struct options {
	u64 seed;
	u32 seconds;      /* per subtest */
	u32 procs;        /* 0: what the subtest says */
	u32 threads;      /* readers per process; 0: what the subtest says */
	u32 window;       /* spins by which race windows are widened */
	u32 mappers;      /* vm.lodic_mappers while the test runs */
	const char *only; /* name of the one subtest to run */
	const char *dir;  /* use this directory, mount nothing */
};

static struct options opt = { .seconds = 3, .window = 100, .mappers = 1 };

static unused u64 now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static unused void sleep_ms(u32 ms)
{
	struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000l };

	nanosleep(&t, NULL);
}

/* splitmix64: every random choice of a test comes from the seed that it prints. */
static unused u64 mix64(u64 x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

static unused u64 rnd(u64 *state)
{
	*state += 0x9e3779b97f4a7c15ull;
	return mix64(*state);
}

/* -- KTAP --------------------------------------------------------------------------- */

static u32 ktap_at, ktap_failed, ktap_skipped;
static char ktap_why[400]; /* first reason why the present subtest failed */

static unused void ktap_plan(u32 nr)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("KTAP version 1\n1..%u\n", nr);
	printf("# seed %llu, %u s each, window %u, mappers %u\n",
	       (unsigned long long)opt.seed, opt.seconds, opt.window, opt.mappers);
}

static unused __attribute__((format(printf, 1, 2))) void diag(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	printf("# ");
	vprintf(fmt, ap);
	printf("\n");
	va_end(ap);
}

/* Notes that the present subtest has failed, and why; the first reason is the one kept. */
static unused __attribute__((format(printf, 1, 2))) void fail(const char *fmt, ...)
{
	char text[sizeof(ktap_why)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	diag("%s", text);
	if (!ktap_why[0])
		memcpy(ktap_why, text, sizeof(text));
}

static unused void ktap_result(const char *name)
{
	ktap_at++;
	if (ktap_why[0]) {
		ktap_failed++;
		printf("not ok %u %s: %s\n", ktap_at, name, ktap_why);
	} else {
		printf("ok %u %s\n", ktap_at, name);
	}
	ktap_why[0] = 0;
}

static unused void ktap_skip(const char *name, const char *reason)
{
	printf("ok %u %s # SKIP %s\n", ++ktap_at, name, reason);
	ktap_skipped++;
	ktap_why[0] = 0;
}

static unused int ktap_end(void)
{
	printf("# totals: pass:%u fail:%u skip:%u\n",
	       ktap_at - ktap_failed - ktap_skipped, ktap_failed, ktap_skipped);
	return ktap_failed ? 1 : 0;
}

/* What was to be set up was not, and no subtest can say anything. */
static unused __attribute__((format(printf, 1, 2), noreturn)) void bail(const char *fmt,
                                                                        ...)
{
	va_list ap;

	va_start(ap, fmt);
	printf("Bail out! ");
	vprintf(fmt, ap);
	printf(": %s\n", strerror(errno));
	va_end(ap);
	exit(2);
}

/* -- files of one number or word ------------------------------------------------------ */

static unused int add_text(const char *path, const char *text, int how)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | how);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = write(fd, text, strlen(text));
	n = n < 0 ? -errno : 0;
	close(fd);
	return n;
}

static unused int write_text(const char *path, const char *text)
{
	return add_text(path, text, O_TRUNC);
}

static unused int append_text(const char *path, const char *text)
{
	return add_text(path, text, O_APPEND);
}

static unused int write_number(const char *path, u64 n)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
	return write_text(path, text);
}

/* Returns the number that the file holds, or -1. */
static unused long long read_number(const char *path)
{
	char text[64] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	if (read(fd, text, sizeof(text) - 1) <= 0)
		text[0] = 0;
	close(fd);
	return text[0] ? atoll(text) : -1;
}

/* -- LODIC: switches and counters ------------------------------------------------------ */

#define SYSCTL_LODIC "/proc/sys/vm/lodic"
#define SYSCTL_MAPPERS "/proc/sys/vm/lodic_mappers"
#define DEBUG_WINDOW "/sys/kernel/debug/lodic/window"
#define DEBUG_MUTANT "/sys/kernel/debug/lodic/mutant"

struct lodic_counters {
	u64 ref, unref, unref_global, fold, folded, fold_retry;
	u64 fallback, lookup;
};

struct vmstat_name {
	const char *name;
	size_t offset;
};

#define VMSTAT_NAME(field) \
	{ \
		"lodic_" #field, offsetof(struct lodic_counters, field) \
	}
static const struct vmstat_name vmstat_names[] = {
	VMSTAT_NAME(ref),      VMSTAT_NAME(unref),  VMSTAT_NAME(unref_global),
	VMSTAT_NAME(fold),     VMSTAT_NAME(folded), VMSTAT_NAME(fold_retry),
	VMSTAT_NAME(fallback), VMSTAT_NAME(lookup),
};

/* One line of /proc/vmstat: "name value". Returns false for a line that is not LODIC's. */
static bool lodic_counters_line(char *line, struct lodic_counters *c)
{
	char *value = strchr(line, ' ');
	u32 i;

	if (!value || strncmp(line, "lodic_", 6))
		return false;
	*value++ = 0;
	for (i = 0; i < sizeof(vmstat_names) / sizeof(vmstat_names[0]); i++) {
		if (!strcmp(line, vmstat_names[i].name))
			*(u64 *)((char *)c + vmstat_names[i].offset) =
				strtoull(value, NULL, 10);
	}
	return true;
}

/* Reads LODIC's counters. false, with zeros: this kernel has none. */
static unused bool lodic_read(struct lodic_counters *ret_c)
{
	FILE *f = fopen("/proc/vmstat", "re");
	char line[128];
	bool found = false;

	memset(ret_c, 0, sizeof(*ret_c));
	if (!f)
		return false;
	while (fgets(line, sizeof(line), f))
		found |= lodic_counters_line(line, ret_c);
	fclose(f);
	return found;
}

static unused bool lodic_present(void)
{
	struct lodic_counters c;

	return lodic_read(&c);
}

/*
 * Turns LODIC on for the test. false: this kernel has none, or was booted without
 * lodic=on, and the test shows only that reads are right without it.
 */
static unused bool lodic_setup(void)
{
	int err;

	if (!lodic_present()) {
		diag("no LODIC: its counters are not looked at");
		return false;
	}
	if (read_number(SYSCTL_LODIC) != 1) {
		err = write_number(SYSCTL_LODIC, 1);
		if (err || read_number(SYSCTL_LODIC) != 1) {
			diag("no LODIC: vm.lodic does not turn on (%s)",
			     strerror(-err));
			return false;
		}
	}
	err = write_number(SYSCTL_MAPPERS, opt.mappers);
	if (err)
		diag("vm.lodic_mappers: %s", strerror(-err));
	err = write_number(DEBUG_WINDOW, opt.window);
	if (err && opt.window)
		diag("windows are not widened: %s", strerror(-err));
	return true;
}

static unused void lodic_restore(void)
{
	if (!lodic_present())
		return;
	write_number(DEBUG_WINDOW, 0);
	write_number(SYSCTL_MAPPERS, 4);
}

/* What must hold when no reader is inside read(). */
static unused void lodic_check_quiet(void)
{
	struct lodic_counters c;

	if (!lodic_read(&c))
		return;
	if (c.ref != c.unref + c.unref_global)
		fail("lodic_ref %llu != lodic_unref %llu + lodic_unref_global %llu",
		     (unsigned long long)c.ref, (unsigned long long)c.unref,
		     (unsigned long long)c.unref_global);
	if (c.unref_global != c.folded)
		fail("lodic_unref_global %llu != lodic_folded %llu",
		     (unsigned long long)c.unref_global, (unsigned long long)c.folded);
}

static unused struct lodic_counters lodic_since(const struct lodic_counters *then)
{
	struct lodic_counters now;

	lodic_read(&now);
	now.ref -= then->ref;
	now.unref -= then->unref;
	now.unref_global -= then->unref_global;
	now.fold -= then->fold;
	now.folded -= then->folded;
	now.fold_retry -= then->fold_retry;
	now.fallback -= then->fallback;
	now.lookup -= then->lookup;
	return now;
}

static unused void lodic_diag(const char *name, const struct lodic_counters *d)
{
	diag("%s: ref %llu unref %llu unref_global %llu fold %llu folded %llu retry %llu "
	     "fallback %llu lookup %llu",
	     name, (unsigned long long)d->ref, (unsigned long long)d->unref,
	     (unsigned long long)d->unref_global, (unsigned long long)d->fold,
	     (unsigned long long)d->folded, (unsigned long long)d->fold_retry,
	     (unsigned long long)d->fallback, (unsigned long long)d->lookup);
}

/* -- the kernel's log ------------------------------------------------------------------ */

/* A line with one of these says that the kernel found something wrong. after.sh: same. */
static const char *const klog_words[] = {
	"BUG:",
	"Bad page",
	"Bad rss",
	"bad_page",
	"WARNING:",
	"Oops",
	"general protection",
	"Kernel panic",
	"KASAN",
	"KFENCE",
	"UBSAN",
	"refcount_t:",
	"kernel BUG at",
	"INFO: lockdep",
	"INFO: possible",
	"rcu: INFO",
	"soft lockup",
	"blocked for more",
	"EXT4-fs error",
	"XFS: Assertion",
	"EXT4-fs warning",
	"Internal error",
	"unable to handle",
	"page dumped because",
	"Memory corrupt",
};

/* Starts looking at the log here. Returns a descriptor for klog_look(), or -1. */
static unused int klog_open(void)
{
	int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd >= 0)
		lseek(fd, 0, SEEK_END);
	return fd;
}

/*
 * Reads on from where the last look ended. Returns whether a line with a word of
 * klog_words was there; the first such line is in ret_line.
 */
static unused bool klog_look(int fd, char *ret_line, size_t bytes)
{
	char record[2048];
	bool found = false;
	ssize_t n;
	u32 i;

	while (fd >= 0) {
		char *text, *end;

		n = read(fd, record, sizeof(record) - 1);
		if (n < 0 && errno == EPIPE)
			continue; /* overwritten: go on with what is left */
		if (n <= 0)
			break;
		record[n] = 0;
		text = strchr(record, ';');
		if (found || !text)
			continue;
		end = strchr(text, '\n');
		if (end)
			*end = 0;
		for (i = 0; i < sizeof(klog_words) / sizeof(klog_words[0]); i++) {
			if (strstr(text, klog_words[i])) {
				snprintf(ret_line, bytes, "%s", text + 1);
				found = true;
				break;
			}
		}
	}
	return found;
}

static unused void klog_check(int fd)
{
	char line[200];

	if (klog_look(fd, line, sizeof(line)))
		fail("kernel log: %s", line);
}

/* -- options and processors ----------------------------------------------------------- */

static unused u32 nr_cpus(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	sched_getaffinity(0, sizeof(set), &set);
	return CPU_COUNT(&set) ? CPU_COUNT(&set) : 1;
}

/* Pins the calling thread to the n-th processor, counted round. */
static unused void pin_cpu(u32 n)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(n % nr_cpus(), &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static unused void usage(const char *name)
{
	fprintf(stderr,
	        "usage: %s [-t seconds] [-s subtest] [-r seed] [-d dir] [-p processes]\n"
	        "          [-n threads] [-w window spins] [-m mappers]\n",
	        name);
	exit(2);
}

/* What boot/init was told of all tests' times. */
static unused void seconds_of_boot(void)
{
	const char *seconds = getenv("LODIC_SECONDS"), *slow = getenv("LODIC_SLOW");

	if (slow)
		opt.seconds *= atoi(slow);
	if (seconds)
		opt.seconds = atoi(seconds);
}

static unused void parse_options(int argc, char **argv)
{
	int c;

	opt.seed = 1;
	seconds_of_boot();
	while ((c = getopt(argc, argv, "t:s:r:d:p:n:w:m:")) != -1) {
		switch (c) {
		case 't': opt.seconds = atoi(optarg); break;
		case 's': opt.only = optarg; break;
		case 'r': opt.seed = strtoull(optarg, NULL, 0); break;
		case 'd': opt.dir = optarg; break;
		case 'p': opt.procs = atoi(optarg); break;
		case 'n': opt.threads = atoi(optarg); break;
		case 'w': opt.window = atoi(optarg); break;
		case 'm': opt.mappers = atoi(optarg); break;
		default: usage(argv[0]);
		}
	}
	if (optind != argc || !opt.seconds)
		usage(argv[0]);
}

#endif

// SPDX-License-Identifier: GPL-2.0
/*
 * PAYGO's protocol, case by case. Readers hold references in a copy (lib/held.h), are moved to
 * another processor or not, and go on before, while or after an entry folds. What the counters
 * in /proc/vmstat must say is known. What code in the rest of the kernel does with entries is
 * in paygo_live.c.
 */
#include "held.h"
#include "paygo.h"
#include "test.h"

#define HOME 1      /* the processor of most cases; the readers' own are 1, 2, 3, 0 */
#define WIDE 100000 /* spins in a window that readers are to end in */
#define ROUNDS 8    /* of a case in which two things race */
#define MANY_PAGES (FILE_BYTES / PAGE)

struct paygo_case {
	const char *name;
	void (*run)(void);
	void (*end)(void); /* puts right what run() leaves; or NULL */
	bool hybrid;       /* for folioref=hybrid only */
};

static const u8 *expect;
static struct held held;
static struct paygo before;

static void expect_number(const char *what, u64 got, u64 want)
{
	if (got != want)
		ktap_fail("%s is %llu, not %llu", what, (unsigned long long)got,
		          (unsigned long long)want);
}

/* Since the case began, or since the last call. */
static struct paygo counted(const char *what)
{
	struct paygo p = paygo_since(&before);

	paygo_diag(what, &p);
	paygo_read(&before);
	return p;
}

static void place(u32 holder, u32 cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (pthread_setaffinity_np(held.holders[holder].thread, sizeof(set), &set))
		ktap_fail("processor %u: %s", cpu, strerror(errno));
}

/* Holder i stands on processor (first + i) % HOLDERS. */
static void place_all(u32 first)
{
	u32 i;

	for (i = 0; i < HOLDERS; i++)
		place(i, (first + i) % HOLDERS);
}

/* On three processors, none of them HOME. */
static void place_elsewhere(void)
{
	u32 i;

	for (i = 0; i < HOLDERS; i++)
		place(i, (HOME + 1 + i % 3) % HOLDERS);
}

static void place_home(void)
{
	u32 i;

	for (i = 0; i < HOLDERS; i++)
		place(i, HOME);
}

static void read_once(u32 holder, u64 offset)
{
	held_take(&held, holder, 1, offset);
	held_release(&held, holder, 1, false);
}

/* -- one entry --------------------------------------------------------------------------- */

static void install_then_hit(void)
{
	struct paygo p;

	place(0, HOME);
	read_once(0, 0);
	p = counted("first read");
	expect_number("install", p.install, 1);
	expect_number("hit", p.hit, 0);
	expect_number("held_bytes", p.held_bytes, PAGE);
	read_once(0, 0);
	p = counted("second read");
	expect_number("install", p.install, 0);
	expect_number("hit", p.hit, 1);
	expect_number("unref", p.unref, 1);
	expect_number("held_bytes", p.held_bytes, PAGE);
}

/* Without contention, and not at once, there is no entry. */
static void contention_only(void)
{
	struct paygo p;

	paygo_at_once(false);
	place(0, HOME);
	read_once(0, 0);
	p = counted("one reader alone");
	expect_number("install", p.install + p.hit + p.full, 0);
}

static void at_once_again(void)
{
	paygo_at_once(true);
}

static void table_per_cpu(void)
{
	struct paygo p;

	place_all(0);
	held_take(&held, 0, HOLDERS, 0);
	held_release(&held, 0, HOLDERS, false);
	p = counted("each on its processor");
	expect_number("install", p.install, HOLDERS);
	expect_number("unref", p.unref, HOLDERS);
	expect_number("away", p.away, 0);
	place_all(1);
	held_take(&held, 0, HOLDERS, 0);
	held_release(&held, 0, HOLDERS, false);
	expect_number("hit", counted("each on the next one").hit, HOLDERS);
}

static void away(void)
{
	struct paygo p;

	place_home();
	held_take(&held, 0, HOLDERS, 0);
	place_elsewhere();
	held_release(&held, 0, HOLDERS, false);
	p = counted("moved");
	expect_number("install", p.install, 1);
	expect_number("hit", p.hit, HOLDERS - 1);
	expect_number("away", p.away, HOLDERS);
	expect_number("unref", p.unref, 0);
	place_home();
	read_once(0, 0);
	expect_number("hit", counted("back at home").hit, 1);
	paygo_drain();
	p = counted("folded");
	expect_number("fold", p.fold, 1);
	expect_number("folded", p.folded, 0);
	expect_number("held_bytes", p.held_bytes, 0);
}

static void fold_while_held(void)
{
	struct paygo p;

	place_all(0);
	held_take(&held, 0, HOLDERS, 0);
	paygo_drain();
	p = counted("folded");
	expect_number("fold", p.fold, HOLDERS);
	expect_number("folded", p.folded, HOLDERS);
	held_release(&held, 0, HOLDERS, false);
	p = counted("returned");
	expect_number("unref", p.unref, HOLDERS);
	expect_number("unref_global", p.unref_global, HOLDERS);
}

static void fold_then_away(void)
{
	struct paygo p;

	place_home();
	held_take(&held, 0, HOLDERS, 0);
	paygo_drain();
	expect_number("folded", counted("folded").folded, HOLDERS);
	place_elsewhere();
	held_release(&held, 0, HOLDERS, false);
	p = counted("returned");
	expect_number("away", p.away, HOLDERS);
	expect_number("unref_global", p.unref_global, HOLDERS);
}

static void *drainer(void *unused)
{
	paygo_drain();
	return unused;
}

/*
 * Readers return from elsewhere while home folds: between its look at their returns and the
 * close, or just after. Chance says how wide the window between these two is. In a wide one
 * all return before the close. A return that is broken has the same window.
 */
static void fold_while_returning(void)
{
	u64 rng = random_mix(opt.seed);
	pthread_t thread;
	struct paygo p = { 0 };
	u32 round;

	for (round = 0; round < (p.folded ? ROUNDS : 8 * ROUNDS) && !ktap_failing();
	     round++) {
		place_home();
		held_take(&held, 0, HOLDERS, 0);
		place_elsewhere();
		text_write_number(PAYGO_WINDOW,
		                  opt.window ? WIDE >> random_next(&rng) % 12 : 0);
		if (pthread_create(&thread, NULL, drainer, NULL))
			ktap_bail("pthread_create");
		clock_sleep_ms(random_next(&rng) % 16);
		held_let_go(&held, 0, HOLDERS);
		held_wait(&held, HOLDERS);
		pthread_join(thread, NULL);
		text_write_number(PAYGO_WINDOW, 0);
		held_check(&held, 0, HOLDERS, false);
		paygo_check_quiet();
		p = paygo_since(&before);
	}
	counted("raced");
	if (!p.folded)
		ktap_fail("no reader ever held its reference when its entry closed");
}

/* -- tombstones -------------------------------------------------------------------------- */

/*
 * Between the fold and the last return the entry's processor counts its key in no entry. A
 * second reader there counts globally, and must not disturb the first one's return.
 */
static void tombstone(void)
{
	struct paygo p;

	place_home();
	held_take(&held, 0, 1, 0);
	paygo_drain();
	counted("one held, folded");
	held_take(&held, 1, 1, 0);
	p = counted("another one");
	expect_number("install", p.install, 0);
	expect_number("hit", p.hit, 0);
	expect_number("full", p.full, 1);
	held_release(&held, 0, 1, false);
	expect_number("unref_global", counted("the first is back").unref_global, 1);
	held_release(&held, 1, 1, false);
	read_once(2, 0);
	expect_number("install", counted("a third").install, 1);
}

/* Nor may the entry count another folio meanwhile, however many ask for its bucket. */
static void tombstone_in_a_full_bucket(void)
{
	struct paygo p;
	u32 i;

	place_home();
	held_take(&held, 0, 1, 0);
	paygo_drain();
	counted("one held, folded");
	for (i = 1; i < MANY_PAGES && !ktap_failing(); i++)
		read_once(1, i * PAGE);
	p = counted("many others");
	expect_number("install + full", p.install + p.full, MANY_PAGES - 1);
	held_release(&held, 0, 1, false);
	expect_number("unref_global", counted("the first is back").unref_global, 1);
}

/*
 * The page is cut off the file, so that the entry's reference is the last but the reader's.
 * Folding must not let the page go: the reader still copies from it.
 */
static void fold_after_truncate(void)
{
	place_home();
	held_take(&held, 0, 1, 0);
	if (ftruncate(held.fd, 0))
		ktap_fail("truncate: %s", strerror(errno));
	paygo_drain();
	held_release(&held, 0, 1, false);
	expect_number("unref_global", counted("returned").unref_global, 1);
}

static void file_back(void)
{
	if (pwrite(held.fd, expect, FILE_BYTES, 0) != (ssize_t)FILE_BYTES)
		ktap_fail("writing the file: %s", strerror(errno));
}

/* -- who may have entries, and how many -------------------------------------------------- */

static void disabled(void)
{
	struct paygo p;

	place_home();
	read_once(0, 0);
	paygo_disable(true);
	p = counted("disabled");
	expect_number("fold", p.fold, 1);
	expect_number("held_bytes", p.held_bytes, 0);
	read_once(0, 0);
	p = counted("read meanwhile");
	expect_number("hit", p.hit, 0);
	expect_number("install", p.install, 0);
	paygo_disable(false);
	read_once(0, 0);
	expect_number("install", counted("enabled").install, 1);
}

/* A reference that was taken before it, and comes back while entries are forbidden. */
static void disabled_while_held(void)
{
	place_all(0);
	held_take(&held, 0, HOLDERS, 0);
	paygo_disable(true);
	expect_number("folded", counted("disabled").folded, HOLDERS);
	held_release(&held, 0, HOLDERS, false);
	paygo_disable(false);
	expect_number("unref_global", counted("returned").unref_global, HOLDERS);
}

/* More pages than a table has entries: the rest is counted globally. */
static void bound(void)
{
	struct paygo p;
	u32 i, entries;

	place_home();
	for (i = 0; i < MANY_PAGES && !ktap_failing(); i++)
		read_once(0, i * PAGE);
	p = counted("every page once");
	entries = p.install - p.fold;
	expect_number("install + full", p.install + p.full, MANY_PAGES);
	expect_number("held_bytes", p.held_bytes, entries * PAGE);
	if (!p.full)
		ktap_fail("%lu pages, and each got an entry", MANY_PAGES);
}

static void age(void)
{
	u64 end = clock_now_ns() + 20ull * PAYGO_TURN_MS * 1000000, began;
	struct paygo p;

	place_all(0);
	began = clock_now_ns();
	held_take(&held, 0, HOLDERS, 0);
	held_release(&held, 0, HOLDERS, false);
	do {
		clock_sleep_ms(50);
		p = paygo_since(&before);
	} while (p.fold < HOLDERS && clock_now_ns() < end);
	counted("left alone");
	expect_number("fold", p.fold, HOLDERS);
	expect_number("held_bytes", p.held_bytes, 0);
	ktap_diag("gone after %llu ms",
	          (unsigned long long)(clock_now_ns() - began) / 1000000);
	if (clock_now_ns() - began < PAYGO_TURN_MS * 9 / 10 * 1000000ull)
		ktap_fail("gone before a turn was over");
}

/* An entry that is hit in each turn stays. */
static void age_of_a_hot_page(void)
{
	u64 end = clock_now_ns() + 4ull * PAYGO_TURN_MS * 1000000;
	struct paygo p;

	place_home();
	while (clock_now_ns() < end && !ktap_failing()) {
		read_once(0, 0);
		clock_sleep_ms(PAYGO_TURN_MS / 20);
	}
	p = counted("read all the time");
	expect_number("install", p.install, 1);
	expect_number("fold", p.fold, 0);
}

/* -- hybrid ------------------------------------------------------------------------------ */

/*
 * The first reader counts in the page table entry of its process. The second finds it there,
 * and makes an entry in the table of its CPU. Each kind folds on its own.
 */
static void shared_entry(void)
{
	struct counters then, d;
	struct paygo p;
	char *map;

	paygo_at_once(false);
	map = file_map(held.fd, PAGE, PROT_READ, MAP_SHARED);
	counters_read(&then);
	place_all(0);
	held_take(&held, 0, 1, 0);
	d = counters_since(&then);
	expect_number("lodic_ref", d.ref, 1);
	expect_number("install", counted("alone").install, 0);
	held_take(&held, 1, 1, 0);
	d = counters_since(&then);
	expect_number("lodic_ref", d.ref, 2);
	expect_number("lodic_unref", d.unref, 1);
	expect_number("install", counted("a second").install, 1);
	/* The table comes first: the third is on the processor of the second. */
	place(2, 1);
	held_take(&held, 2, 1, 0);
	p = counted("a third");
	expect_number("hit", p.hit, 1);
	expect_number("lodic_ref", counters_since(&then).ref, 2);
	munmap(map, PAGE);
	expect_number("lodic_folded", counters_since(&then).folded, 1);
	paygo_drain();
	expect_number("folded", counted("folded").folded, 2);
	held_release(&held, 0, 3, false);
	counters_check_quiet();
	expect_number("unref_global", counted("returned").unref_global, 2);
}

static const struct paygo_case cases[] = {
	{ .name = "install-then-hit", .run = install_then_hit },
	{ .name = "contention-only", .run = contention_only, .end = at_once_again },
	{ .name = "table-per-cpu", .run = table_per_cpu },
	{ .name = "away", .run = away },
	{ .name = "fold-while-held", .run = fold_while_held },
	{ .name = "fold-then-away", .run = fold_then_away },
	{ .name = "fold-while-returning", .run = fold_while_returning },
	{ .name = "tombstone", .run = tombstone },
	{ .name = "tombstone-in-a-full-bucket", .run = tombstone_in_a_full_bucket },
	{ .name = "fold-after-truncate", .run = fold_after_truncate, .end = file_back },
	{ .name = "disabled", .run = disabled },
	{ .name = "disabled-while-held", .run = disabled_while_held },
	{ .name = "bound", .run = bound },
	{ .name = "shared-entry",
	  .run = shared_entry,
	  .end = at_once_again,
	  .hybrid = true },
	{ .name = "age", .run = age },
	{ .name = "age-of-a-hot-page", .run = age_of_a_hot_page },
};

/* Every page is there, up to date, and read ahead. */
static void warm(void)
{
	static u8 to[16 * PAGE];
	u64 at;

	for (at = 0; at < 2 * FILE_BYTES; at += sizeof(to)) {
		if (pread(held.fd, to, sizeof(to), at % FILE_BYTES) != sizeof(to))
			ktap_bail("reading the file");
	}
}

static void run_case(const struct paygo_case *c, int klog)
{
	struct test_fs *fs;
	char path[160];
	int err = fs_mount_once("ext4", &fs);

	if (err)
		ktap_bail("no ext4 (%s)", strerror(-err));
	if (c->hybrid && strcmp(switches_scheme(), "hybrid")) {
		ktap_skip(c->name, "not folioref=hybrid");
		return;
	}
	klog_skip(klog);
	snprintf(path, sizeof(path), "%s/paygo-%s", fs->dir, c->name);
	if (file_make(path, expect, FILE_BYTES))
		ktap_bail("%s", path);
	held.fd = open(path, O_RDWR | O_CLOEXEC);
	held.path = path;
	held.expect = expect;
	paygo_at_once(false);
	warm();
	paygo_drain();
	paygo_at_once(true);
	paygo_read(&before);
	c->run();
	if (c->end)
		c->end();
	paygo_check_quiet();
	close(held.fd);
	file_check_exact(fs, path, FILE_BYTES);
	unlink(path);
	klog_check(klog);
	ktap_result(c->name);
}

static bool wanted(const struct paygo_case *c)
{
	return !opt.only || !strcmp(opt.only, c->name);
}

int main(int argc, char **argv)
{
	u32 i, nr = 1;
	int klog, err;

	options_parse(argc, argv);
	for (i = 0; i < NR(cases); i++)
		nr += wanted(&cases[i]);
	ktap_plan(nr);
	if (!paygo_on() || cpu_nr() < HOLDERS) {
		printf("1..0 # SKIP not booted with folioref=paygo on four processors\n");
		return KTAP_SKIPPED;
	}
	switches_on();
	klog = klog_open();
	expect = data_expected(FILE_BYTES);
	err = held_init(&held, HOLDERS);
	if (err) {
		printf("1..0 # SKIP no userfaultfd: %s\n", strerror(-err));
		return KTAP_SKIPPED;
	}
	for (i = 0; i < NR(cases); i++) {
		if (wanted(&cases[i]))
			run_case(&cases[i], klog);
	}
	paygo_at_once_restore();
	fs_umount_all();
	ktap_result("umount");
	switches_restore();
	return ktap_end();
}

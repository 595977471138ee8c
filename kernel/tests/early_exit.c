// SPDX-License-Identifier: GPL-2.0
/*
 * Reclaim asks whether a page is in use before it unmaps it from all that share it. An entry
 * that a reader counts itself in is an answer (LODIC s.4.5). Here a thread of one of five
 * processes holds pages that all of them map, while the kernel reclaims their cgroup. The
 * test does not look at the data that the reader gets: see hold.c.
 */
#include "proactive.h"
#include "sharers.h"
#include "test.h"

#define SHARERS 5
#define HOLDER 2 /* not the first that the kernel looks at, and not the last */
#define PAGES (HOLD_PAGES + 388)
#define ASKED ((PAGES - HOLD_PAGES - 64) * PAGE)
#define SYSCTL_EARLY_EXIT "/proc/sys/vm/lodic_early_exit"

static int file;

/* The kernel reclaims what nobody holds. The pages that are held stay in any case. */
static struct counters reclaim_beside_reader(struct sharers *s)
{
	struct counters before, d;
	int err;

	*s = (struct sharers){
		.fd = file, .pages = PAGES, .nr = SHARERS, .holder = HOLDER
	};
	/* The pages of the case before would come from the active list. */
	posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
	counters_read(&before);
	sharers_start(s);
	sharers_age(s);
	d = counters_since(&before);
	if (d.ref != HOLD_PAGES)
		ktap_fail("%llu local references are held, not %u", (unsigned long long)d.ref,
		          HOLD_PAGES);
	err = proactive_reclaim(ASKED);
	if (err)
		ktap_fail("memory.reclaim: %s", strerror(-err));
	if (sharers_resident(s) > PAGES - ASKED / PAGE)
		ktap_fail("%u pages of %u are left", sharers_resident(s), PAGES);
	return counters_since(&before);
}

static void check(const char *what, u64 is, u64 least, u64 most)
{
	if (is < least || is > most)
		ktap_fail("%s: %llu, not %llu to %llu", what, (unsigned long long)is,
		          (unsigned long long)least, (unsigned long long)most);
}

/* Nobody loses the mapping of a page that is read. */
static void case_on(void)
{
	struct counters d;
	struct sharers s;

	text_write_number(SYSCTL_EARLY_EXIT, 1);
	d = reclaim_beside_reader(&s);
	check("folded", d.folded, 0, 0);
	check("entries left", sharers_entries(&s, true), SHARERS * HOLD_PAGES,
	      SHARERS * HOLD_PAGES);
	sharers_stop(&s);
	ktap_result("mappings-stay");
}

/* The control: without the question the kernel unmaps them from all, in vain. It may pass by a
 * page, for example because somebody has its lock. */
static void case_off(void)
{
	struct counters d;
	struct sharers s;

	text_write_number(SYSCTL_EARLY_EXIT, 0);
	d = reclaim_beside_reader(&s);
	text_write_number(SYSCTL_EARLY_EXIT, 1);
	check("folded", d.folded, HOLD_PAGES / 2, HOLD_PAGES);
	check("entries left", sharers_entries(&s, true), 0, SHARERS * HOLD_PAGES / 2);
	sharers_stop(&s);
	ktap_result("without-it-they-go");
}

/* It is only a hint: when the reader has gone, reclaim takes the pages. */
static void case_after(void)
{
	struct counters d;
	struct sharers s;

	d = reclaim_beside_reader(&s);
	check("folded", d.folded, 0, 0);
	sharers_stop(&s);
	posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
	check("pages left", sharers_resident(&s), 0, 0);
	counters_check_quiet();
	ktap_result("free-after-the-reader");
}

int main(int argc, char **argv)
{
	struct test_fs fs;
	char path[160];
	int err;

	options_parse(argc, argv);
	opt.window = 0;
	if (!switches_on() || text_read_number(SYSCTL_EARLY_EXIT) < 0) {
		printf("1..0 # SKIP no local references\n");
		return KTAP_SKIPPED;
	}
	err = fs_mount("ext4", &fs);
	if (!err)
		err = proactive_enter();
	if (err) {
		printf("1..0 # SKIP no ext4 or no memory cgroup: %s\n", strerror(-err));
		return KTAP_SKIPPED;
	}
	ktap_plan(3);
	snprintf(path, sizeof(path), "%s/early-exit", fs.dir);
	if (file_make(path, data_expected(PAGES * PAGE), PAGES * PAGE))
		ktap_bail("%s", path);
	file = open(path, O_RDWR | O_CLOEXEC);
	case_on();
	case_off();
	case_after();
	close(file);
	unlink(path);
	proactive_leave();
	fs_umount(&fs);
	switches_restore();
	return ktap_end();
}

// SPDX-License-Identifier: GPL-2.0
/*
 * How many instructions the guest executes to take a page of a file back, by the number of
 * processes that map it (LODIC Fig. 10). Like bench_instructions.c this is for QEMU with
 * `-icount shift=0 -smp 1`. It runs on any kernel, and prints CSV:
 *
 *     case,sharers,asked,gone,entries,instructions
 *
 * Instructions are the least of TRIES, because now and then a timer or a kernel thread comes
 * in between.
 *
 * asked: the pages that the case is about; instructions are for each of them. gone: how many
 * left the page cache. entries: how many entries of the sharers still lead to them.
 *
 * drop-caches, fadvise: all pages of the file, which nobody maps.
 * drop-caches-read, fadvise-read: the same, when a reader has just read a part of each. With
 *     folioref=paygo and paygo_at_once this CPU's table has entries of half of them then.
 * drop-caches-mapped, fadvise-mapped: the same, mapped: these two refuse.
 * reclaim: memory.reclaim of pages that are mapped and unused.
 * reclaim-held-first, -last: for each page that a reader holds while its neighbours are
 *     reclaimed. The reader is a thread of the sharer that mapped the file first or last.
 * pageout: MADV_PAGEOUT by one sharer. It refuses pages that others map too. It asks nobody
 *     whether a page is in use, so a reader makes no difference.
 */
#include "proactive.h"
#include "sharers.h"
#include "test.h"
#include "ticks.h"

#define PAGES 1024
#define BYTES (PAGES * PAGE)
/* What memory.reclaim leaves, so that it never runs out of pages that it can take. */
#define LEAVE 128
#define TRIES 3

struct result {
	u64 instructions;
	u32 gone;
	u64 scanned;
	u64 entries; /* of the pages that are held, if there are any */
};

static const char *path;
static int file;

static void say(const char *name, u32 nr, u32 asked, u32 gone, u64 entries, u64 all)
{
	printf("%s,%u,%u,%u,%llu,%llu.%llu\n", name, nr, asked, gone,
	       (unsigned long long)entries, (unsigned long long)(all / asked),
	       (unsigned long long)(all * 10 / asked % 10));
}

static void act_drop_caches(void)
{
	if (text_write("/proc/sys/vm/drop_caches", "1"))
		ktap_bail("drop_caches");
}

static void act_fadvise(void)
{
	if (posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED))
		ktap_bail("fadvise");
}

static u64 count(void (*act)(void))
{
	u64 began = ticks();

	act();
	return ticks() - began;
}

static u64 least(u64 a, u64 b)
{
	return a < b ? a : b;
}

static void read_each(void)
{
	u32 page;
	u8 to[64];

	for (page = 0; page < PAGES; page++)
		if (pread(file, to, sizeof(to), page * PAGE) != sizeof(to))
			ktap_bail("pread");
}

/* Less what the same call takes when no page of the file is there. */
static void measure_call(const char *name, void (*act)(void), u32 nr, bool read)
{
	u64 all = UINT64_MAX, empty = UINT64_MAX, entries = 0;
	u32 left = 0, i;

	for (i = 0; i < TRIES; i++) {
		struct sharers s = {
			.fd = file, .pages = PAGES, .nr = nr, .holder = NO_HOLDER
		};

		act_fadvise();
		act();
		empty = least(empty, count(act));
		sharers_start(&s);
		sharers_age(&s);
		if (read)
			read_each();
		all = least(all, count(act));
		left = sharers_resident(&s);
		entries = sharers_entries(&s, false);
		sharers_stop(&s);
	}
	say(name, nr, PAGES, PAGES - left, entries, all > empty ? all - empty : 0);
}

/* Reclaims all but LEAVE of the pages that nobody holds. */
static struct result reclaim_once(u32 nr, u32 holder)
{
	u32 held = holder == NO_HOLDER ? 0 : HOLD_PAGES;
	struct sharers s = { .fd = file, .pages = PAGES - HOLD_PAGES + held, .nr = nr,
		             .holder = holder };
	struct result r;
	u64 began;
	int err;

	act_fadvise();
	sharers_start(&s);
	sharers_age(&s);
	r.scanned = proactive_stat("pgscan");
	began = ticks();
	err = proactive_reclaim((PAGES - HOLD_PAGES - LEAVE) * PAGE);
	r.instructions = ticks() - began;
	if (err)
		ktap_bail("memory.reclaim: %s", strerror(-err));
	r.scanned = proactive_stat("pgscan") - r.scanned;
	r.gone = s.pages - sharers_resident(&s);
	r.entries = sharers_entries(&s, held);
	sharers_stop(&s);
	return r;
}

static struct result reclaim(u32 nr, u32 holder)
{
	struct result best = { .instructions = UINT64_MAX };
	u32 i;

	for (i = 0; i < TRIES; i++) {
		struct result r = reclaim_once(nr, holder);

		if (r.instructions < best.instructions)
			best = r;
	}
	return best;
}

static void measure_held(const char *name, u32 nr, u32 holder, const struct result *plain)
{
	struct counters before, d;
	struct result r;
	u64 others;

	counters_read(&before);
	r = reclaim(nr, holder);
	d = counters_since(&before);
	/* Those that were taken cost what they cost without a reader. */
	others = plain->instructions * r.gone / plain->gone;
	printf("# %s,%u: gone %u, scanned %llu, without a reader %llu; local references %llu, "
	       "folded %llu\n",
	       name, nr, r.gone, (unsigned long long)r.scanned,
	       (unsigned long long)plain->scanned, (unsigned long long)d.ref,
	       (unsigned long long)d.folded);
	say(name, nr, HOLD_MET, 0, r.entries,
	    r.instructions > others ? r.instructions - others : 0);
}

static void measure_reclaim(u32 nr)
{
	struct result plain = reclaim(nr, NO_HOLDER);

	say("reclaim", nr, plain.gone, plain.gone, plain.entries, plain.instructions);
	measure_held("reclaim-held-first", nr, 0, &plain);
	measure_held("reclaim-held-last", nr, nr - 1, &plain);
}

/* This process is one of the sharers, and asks. */
static void measure_pageout(u32 nr)
{
	u64 all = UINT64_MAX, entries = 0;
	u32 left = 0, i, page;

	for (i = 0; i < TRIES; i++) {
		struct sharers s = {
			.fd = file, .pages = PAGES, .nr = nr - 1, .holder = NO_HOLDER
		};
		volatile char *map;
		u64 began;

		act_fadvise();
		sharers_start(&s);
		map = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, file, 0);
		for (page = 0; page < PAGES; page++)
			(void)map[page * PAGE];
		sharers_age(&s);
		began = ticks();
		if (madvise((void *)map, BYTES, MADV_PAGEOUT))
			ktap_bail("MADV_PAGEOUT");
		all = least(all, ticks() - began);
		left = sharers_resident(&s);
		munmap((void *)map, BYTES);
		entries = sharers_entries(&s, false);
		sharers_stop(&s);
	}
	say("pageout", nr, PAGES, PAGES - left, entries, all);
}

int main(int argc, char **argv)
{
	struct test_fs fs;
	char name[160];
	u32 nr;
	int err;

	opt.window = 0;
	options_parse(argc, argv);
	err = fs_mount("ext4", &fs);
	if (!err)
		err = proactive_enter();
	if (err)
		ktap_bail("no ext4 or no memory cgroup (%s)", strerror(-err));
	text_write_number(SYSCTL_MAPPERS, 1);
	snprintf(name, sizeof(name), "%s/bench", fs.dir);
	path = name;
	if (file_make(path, data_expected(BYTES), BYTES))
		ktap_bail("%s", path);
	file = open(path, O_RDWR | O_CLOEXEC);
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("case,sharers,asked,gone,entries,instructions\n");
	measure_call("drop-caches", act_drop_caches, 0, false);
	measure_call("fadvise", act_fadvise, 0, false);
	measure_call("drop-caches-read", act_drop_caches, 0, true);
	measure_call("fadvise-read", act_fadvise, 0, true);
	for (nr = 1; nr <= SHARERS_MOST; nr *= 2) {
		measure_call("drop-caches-mapped", act_drop_caches, nr, false);
		measure_call("fadvise-mapped", act_fadvise, nr, false);
		measure_reclaim(nr);
		measure_pageout(nr);
	}
	close(file);
	unlink(path);
	proactive_leave();
	fs_umount(&fs);
	return 0;
}

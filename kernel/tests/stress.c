// SPDX-License-Identifier: GPL-2.0
/*
 * Everything at once: processes read a file on ext4, on xfs and on tmpfs, and do something
 * else to their mappings each round. The parent truncates, punches, moves and evicts the
 * files, and kills readers. The test shows that nothing breaks under load, with large numbers
 * of references and folds. It proves less than race.c and hold.c: a stress of this kind
 * passed with known bugs in.
 */
#include "disturb.h"
#include "test.h"

#include <sys/resource.h>

#define CREW_FLAGS (CREW_ZEROS | CREW_SHORT | CREW_KILLED | CREW_WRITABLE | CREW_LARGE)

static void disturb_dirty(struct seat *s)
{
	/* Storing could fault, because the file may have become shorter. */
	madvise(s->map, HOT_BYTES, MADV_POPULATE_WRITE);
	if (s->round % 16 == 0)
		fdatasync(s->fd);
}

static void disturb_collapse_quietly(struct seat *s)
{
	if (s->round % 8 == 0)
		madvise(AREA_A, PMD_BYTES, MADV_COLLAPSE);
	seat_settle(s);
}

static void disturb_inside(struct seat *s)
{
	static void (*const things[])(struct seat * s) = {
		disturb_munmap,        disturb_map_fixed, disturb_mremap_pte,
		disturb_mremap_pmd,    disturb_mprotect,  disturb_fork,
		disturb_madv_dontneed, disturb_madv_cold, disturb_madv_pageout,
		disturb_clear_refs,    disturb_dirty,     disturb_collapse_quietly,
	};

	things[random_next(&s->rng) % NR(things)](s);
	if (s->round % 8 == 0)
		seat_map(s, AREA_A);
}

static void disturb_outside(struct running *r)
{
	static void (*const things[])(struct running * r) = {
		disturb_fadvise, disturb_drop_caches, disturb_truncate,
		disturb_punch,   disturb_compact,     disturb_kill,
		disturb_split,   disturb_move_pages,  disturb_migrate_pages,
	};
	u32 nr = disturb_two_nodes() ? NR(things) : NR(things) - 2;

	things[random_next(&r->rng) % nr](r);
	r->round++;
}

static const struct race mixed = {
	.name = "stress",
	.flags = CREW_FLAGS | CREW_GUEST,
	.procs = 2,
	.threads = 2,
	.own_map = true,
	.inside = disturb_inside,
};

static void report(const char *kind, struct running *r, struct crew_total *sum)
{
	ktap_diag(
		"%s: %lu reads, %lu zeros, %lu short, %lu inside rounds, %llu outside rounds",
		kind, sum->reads, sum->zeros, sum->shorts, sum->rounds,
		(unsigned long long)r->round);
}

static void run_mixed(bool lodic, int klog)
{
	static const char *const kinds[] = { "ext4", "xfs", "tmpfs" };
	struct running r[NR(kinds)];
	bool there[NR(kinds)] = { false };
	struct counters before;
	struct crew_total sum;
	u64 end, rng = random_mix(opt.seed);
	u32 i;

	counters_read(&before);
	for (i = 0; i < NR(kinds); i++) {
		memset(&r[i], 0, sizeof(r[i]));
		r[i].race = &mixed;
		if (fs_mount(kinds[i], &r[i].fs) || race_open(&r[i])) {
			ktap_diag("%s is left out: %s", kinds[i], r[i].skip);
			continue;
		}
		there[i] = true;
		crew_start(&r[i].crew);
	}
	end = clock_now_ns() + opt.seconds * 1000000000ull;
	while (clock_now_ns() < end && !ktap_failing()) {
		i = random_next(&rng) % NR(kinds);
		if (there[i])
			disturb_outside(&r[i]);
		else
			clock_sleep_ms(1);
	}
	/* All readers end first, because each crew has the others' files open as well. */
	for (i = 0; i < NR(kinds); i++) {
		if (!there[i])
			continue;
		sum = crew_stop(&r[i].crew);
		report(kinds[i], &r[i], &sum);
		race_close(&r[i]);
	}
	for (i = 0; i < NR(kinds); i++) {
		if (!there[i])
			continue;
		file_check_exact(&r[i].fs, r[i].path, FILE_BYTES);
		unlink(r[i].path);
		fs_umount(&r[i].fs);
	}
	if (lodic)
		race_check_counters(&mixed, &before);
	klog_check(klog);
}

int main(int argc, char **argv)
{
	bool lodic;
	int klog;

	opt.seconds = 20;
	opt.window = 0;
	options_parse(argc, argv);
	ktap_plan(1);
	if (opt.dir) {
		ktap_skip("stress", "only on a machine of its own");
		return KTAP_SKIPPED;
	}
	lodic = switches_on();
	klog = klog_open();
	run_mixed(lodic, klog);
	ktap_result("stress");
	switches_restore();
	return ktap_end();
}

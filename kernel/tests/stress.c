// SPDX-License-Identifier: GPL-2.0
/*
 * Everything at once: readers of a file on ext4, on xfs and on tmpfs, whose processes do
 * something else to their mappings each round, while the files are truncated, punched,
 * moved, evicted and their readers killed. Shows that nothing breaks under load, and gives
 * large numbers of references and folds. It proves less than race.c and hold.c: a stress of
 * this kind passed with known bugs in.
 */
#include "disturb_file.h"
#include "disturb_move.h"

#include <sys/resource.h>

#define NR(a) (sizeof(a) / sizeof((a)[0]))
#define CREW_FLAGS (CREW_ZEROS | CREW_SHORT | CREW_KILLED | CREW_WRITABLE | CREW_LARGE)

static void do_dirty(struct seat *s)
{
	/* Not by storing: the file may have become shorter. */
	madvise(s->map, HOT_BYTES, MADV_POPULATE_WRITE);
	if (s->round % 16 == 0)
		fdatasync(s->fd);
}

static void do_collapse_quietly(struct seat *s)
{
	if (s->round % 8 == 0)
		madvise(AREA_A, PMD_BYTES, MADV_COLLAPSE);
	settle(s);
}

static void do_something_inside(struct seat *s)
{
	static void (*const things[])(struct seat * s) = {
		do_munmap,       do_map_fixed,  do_mremap_pte,    do_mremap_pmd,
		do_mprotect,     do_fork,       do_madv_dontneed, do_madv_cold,
		do_madv_pageout, do_clear_refs, do_dirty,         do_collapse_quietly,
	};

	things[rnd(&s->rng) % NR(things)](s);
	if (s->round % 8 == 0)
		map_file(s, AREA_A);
}

static void do_something_outside(struct running *r)
{
	static void (*const things[])(struct running * r) = {
		do_fadvise, do_drop_caches, do_truncate,   do_punch,         do_compact,
		do_kill,    do_split,       do_move_pages, do_migrate_pages,
	};
	u32 nr = two_nodes() ? NR(things) : NR(things) - 2;

	things[rnd(&r->rng) % nr](r);
	r->round++;
}

static const struct race mixed = {
	.name = "stress",
	.flags = CREW_FLAGS | CREW_GUEST,
	.procs = 2,
	.threads = 2,
	.own_map = true,
	.inside = do_something_inside,
};

static void report(const char *kind, struct running *r, struct crew_total *sum)
{
	diag("%s: %lu reads, %lu zeros, %lu short, %lu inside rounds, %llu outside rounds",
	     kind, sum->reads, sum->zeros, sum->shorts, sum->rounds,
	     (unsigned long long)r->round);
}

static void run_mixed(bool lodic, int klog)
{
	static const char *const kinds[] = { "ext4", "xfs", "tmpfs" };
	struct running r[NR(kinds)];
	bool there[NR(kinds)] = { false };
	struct lodic_counters before;
	struct crew_total sum;
	u64 end, rng = mix64(opt.seed);
	u32 i;

	lodic_read(&before);
	for (i = 0; i < NR(kinds); i++) {
		memset(&r[i], 0, sizeof(r[i]));
		r[i].race = &mixed;
		if (fs_mount(kinds[i], &r[i].fs) || race_open(&r[i])) {
			diag("%s is left out: %s", kinds[i], r[i].skip);
			continue;
		}
		there[i] = true;
		crew_start(&r[i].crew);
	}
	end = now_ns() + opt.seconds * 1000000000ull;
	while (now_ns() < end && !ktap_why[0]) {
		i = rnd(&rng) % NR(kinds);
		if (there[i])
			do_something_outside(&r[i]);
		else
			sleep_ms(1);
	}
	/* All readers first: each crew has the others' files open as well. */
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
	parse_options(argc, argv);
	ktap_plan(1);
	if (opt.dir) {
		ktap_skip("stress", "only on a machine of its own");
		return 4;
	}
	lodic = lodic_setup();
	klog = klog_open();
	run_mixed(lodic, klog);
	ktap_result("stress");
	lodic_restore();
	return ktap_end();
}

// SPDX-License-Identifier: GPL-2.0
/*
 * Directed races: readers of eight hot pages, windows widened, against one disturber at a
 * time (disturb_*.h). Shows that reads stay right and that no reference is lost or given
 * back twice, as far as these schedules went; a race whose readers took no local reference
 * fails, as it shows nothing. It does not show that every interleaving is right: the
 * model's checker searches those, and negative.c shows that these races find known bugs.
 */
#include "disturb_file.h"
#include "disturb_move.h"

#define NR(a) (sizeof(a) / sizeof((a)[0]))

struct table {
	const struct race *races;
	u32 nr;
};

static const struct table tables[] = {
	{ races_map, NR(races_map) },
	{ races_file, NR(races_file) },
	{ races_move, NR(races_move) },
};

/* Each kind is mounted at its first use and unmounted at the end. */
static struct test_fs mounts[3];
static const char *const kinds[] = { "ext4", "xfs", "tmpfs" };

static struct test_fs *mount_of(const char *kind, int *ret_err)
{
	u32 i;

	for (i = 0; i < NR(kinds) - 1 && strcmp(kind, kinds[i]); i++)
		;
	*ret_err = 0;
	if (!mounts[i].kind)
		*ret_err = fs_mount(kinds[i], &mounts[i]);
	return &mounts[i];
}

static bool wanted(const struct race *race)
{
	return !opt.only || !strcmp(opt.only, race->name);
}

static u32 nr_wanted(void)
{
	u32 i, j, nr = 0;

	for (i = 0; i < NR(tables); i++) {
		for (j = 0; j < tables[i].nr; j++)
			nr += wanted(&tables[i].races[j]);
	}
	return nr;
}

static void run_one(const struct race *race, bool lodic, int klog)
{
	char reason[100];
	int err;
	struct test_fs *fs = mount_of(race->fs, &err);

	if (err) {
		snprintf(reason, sizeof(reason), "no %s: %s", race->fs, strerror(-err));
		ktap_skip(race->name, reason);
		return;
	}
	race_run(race, fs, lodic, klog);
}

int main(int argc, char **argv)
{
	bool lodic;
	u32 i, j;
	int klog;

	parse_options(argc, argv);
	if (!nr_wanted()) {
		fprintf(stderr, "no subtest %s\n", opt.only);
		return 2;
	}
	ktap_plan(nr_wanted() + 1);
	lodic = lodic_setup();
	klog = klog_open();
	for (i = 0; i < NR(tables); i++) {
		for (j = 0; j < tables[i].nr; j++) {
			if (wanted(&tables[i].races[j]))
				run_one(&tables[i].races[j], lodic, klog);
		}
	}
	for (i = 0; i < NR(mounts); i++) {
		if (mounts[i].kind)
			fs_umount(&mounts[i]);
	}
	ktap_result("umount");
	lodic_restore();
	return ktap_end();
}

// SPDX-License-Identifier: GPL-2.0
/*
 * Directed races: readers of eight hot pages, windows widened, against one disturber at a
 * time (lib/disturb.h). The races show that reads stay right, and that no reference is lost
 * or given back twice, in the schedules that they reach. A race whose readers took no local
 * reference fails, because it shows nothing. The races do not show that every interleaving
 * is right: the model checker searches those. negative.c shows that the directed tests find
 * known bugs.
 */
#include "disturb.h"
#include "test.h"

static const struct race_table *const tables[] = {
	&disturb_map,
	&disturb_file,
	&disturb_move,
	&disturb_machine,
};

static bool wanted(const struct race *race)
{
	return !opt.only || !strcmp(opt.only, race->name);
}

static u32 nr_wanted(void)
{
	u32 i, j, nr = 0;

	for (i = 0; i < NR(tables); i++) {
		for (j = 0; j < tables[i]->nr; j++)
			nr += wanted(&tables[i]->races[j]);
	}
	return nr;
}

static void run_one(const struct race *race, bool lodic, int klog)
{
	char reason[100];
	struct test_fs *fs;
	int err = fs_mount_once(race->fs, &fs);

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

	options_parse(argc, argv);
	if (!nr_wanted()) {
		fprintf(stderr, "no subtest %s\n", opt.only);
		return 2;
	}
	ktap_plan(nr_wanted() + 1);
	lodic = switches_on();
	klog = klog_open();
	for (i = 0; i < NR(tables); i++) {
		for (j = 0; j < tables[i]->nr; j++) {
			if (wanted(&tables[i]->races[j]))
				run_one(&tables[i]->races[j], lodic, klog);
		}
	}
	fs_umount_all();
	ktap_result("umount");
	switches_restore();
	return ktap_end();
}

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: cli/report.h. */
#define _GNU_SOURCE
#include "cli/report.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <unistd.h>

#include "cli/preload.h"
#include "preload/run_environment.h"
#include "preload/run_totals.h"

/* Is it one of ours, whose first process was killed? Nobody has it, so nobody will. One without
 * its magic was killed earlier still: it is empty. */
static bool report_is_left(int id, const struct shmid_ds *is)
{
	struct run_totals *totals;
	bool ours;

	if (is->shm_perm.uid != geteuid() || is->shm_segsz != sizeof(*totals) ||
	    is->shm_nattch > 0 || kill(is->shm_cpid, 0) == 0 || errno != ESRCH)
		return false;
	totals = shmat(id, NULL, SHM_RDONLY);
	if (totals == (void *)-1)
		return false;
	ours = totals->magic == RUN_TOTALS_MAGIC || totals->magic == 0;
	shmdt(totals);
	return ours;
}

static void report_sweep(void)
{
	struct shm_info all;
	struct shmid_ds is;
	int last = shmctl(0, SHM_INFO, (struct shmid_ds *)&all);

	for (int i = 0; i <= last; i++) {
		int id = shmctl(i, SHM_STAT, &is);

		if (id >= 0 && report_is_left(id, &is))
			shmctl(id, IPC_RMID, NULL);
	}
}

int report_totals(void)
{
	struct run_totals *totals;
	int id;

	report_sweep();
	id = shmget(IPC_PRIVATE, sizeof(*totals), IPC_CREAT | 0600);
	totals = id < 0 ? (void *)-1 : shmat(id, NULL, 0);
	if (totals == (void *)-1) {
		if (id >= 0)
			shmctl(id, IPC_RMID, NULL);
		return preload_set(RUN_TOTALS, NULL);
	}
	totals->magic = RUN_TOTALS_MAGIC;
	shmdt(totals); /* the kernel keeps it until somebody removes it */
	return preload_set_number(RUN_TOTALS, (uint64_t)id);
}

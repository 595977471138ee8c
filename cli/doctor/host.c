/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What this host lacks and has: memory, settings. */
#define _GNU_SOURCE
#include <linux/membarrier.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cli/doctor/host.h"
#include "lib/cgroup.h"
#include "lib/service/service.h"

/* ---- its memory ---- */

void doctor_memory_look(struct doctor_memory *m, int pid)
{
	long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
	char list[32] = CGROUP_LIST;
	struct cgroup room;

	cgroup_look(list, CGROUP_MOUNT, &room);
	m->room_bytes = room.left;
	if (pid) {
		snprintf(list, sizeof(list), "/proc/%d/cgroup", pid);
		cgroup_look(list, CGROUP_MOUNT, &room);
	}
	m->bytes = pages > 0 ? (uint64_t)pages * (uint64_t)page_bytes : UINT64_MAX;
	m->grouped = room.least < m->bytes;
	if (m->grouped)
		m->bytes = room.least;
}

/* ---- what it lacks ---- */

static bool file_says(const char *path, const char *word)
{
	char line[128] = "";
	FILE *f = fopen(path, "re");

	if (f && !fgets(line, sizeof(line), f))
		line[0] = '\0';
	if (f)
		fclose(f);
	return strstr(line, word);
}

static const char *lacks_huge_pages(void)
{
	return file_says("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "[never]")
	               ? "huge pages for shared memory: the service asks for them one by one "
	                 "(doc/settings.md, huge-pages)"
	               : NULL;
}

static const char *lacks_lease_right(void)
{
	unsigned long long caps = ~0ULL;
	FILE *f = fopen("/proc/self/status", "re");
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "CapEff: %llx", &caps);
	if (f)
		fclose(f);
	return caps >> 28 & 1 ? NULL
	                      : "CAP_LEASE: files of other users are cached only with "
	                        "--immutable";
}

static const char *lacks_leases(void)
{
	return file_says("/proc/sys/fs/leases-enable", "0")
	               ? "leases (fs.leases-enable is 0): files are cached only with "
	                 "--immutable"
	               : NULL;
}

/* As the service warns of it (serve_run.c). 0 and less are for ever. */
static const char *lacks_lease_time(void)
{
	FILE *f = fopen("/proc/sys/fs/lease-break-time", "re");
	int seconds = 0;
	bool is_short = f && fscanf(f, "%d", &seconds) == 1 && seconds > 0 &&
	                seconds < SERVICE_LEASE_SECONDS;

	if (f)
		fclose(f);
	return is_short ? "time for the service to answer a writer "
	                  "(fs.lease-break-time is below 10 s; the kernel's own is 45)"
	                : NULL;
}

static const char *lacks_fence(void)
{
	long has = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);

	return has >= 0 && has & MEMBARRIER_CMD_GLOBAL
	               ? NULL
	               : "membarrier(2) GLOBAL: each pin is an atomic exchange; reads cost "
	                 "the same";
}

static const char *lacks_rings(void)
{
	return file_says("/proc/sys/kernel/io_uring_disabled", "2")
	               ? "io_uring: the service's workers read instead"
	               : NULL;
}

static const char *lacks_lodic(void)
{
	char line[128];
	FILE *f = fopen("/proc/vmstat", "re");
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f))
		found = strncmp(line, "lodic_", strlen("lodic_")) == 0;
	if (f)
		fclose(f);
	return found ? NULL : "a kernel with LODIC: `lodic map' gains nothing";
}

/* ---- its settings ---- */

void doctor_settings_look(struct doctor *d)
{
	int error = settings_gather(&d->settings, settings_privileged());

	if (error) /* a file has a mistake, and no service starts with that */
		snprintf(d->price.why, sizeof(d->price.why), "%s", d->settings.why);
	d->cache_setting = error ? 0 : d->settings.memory_bytes;
	if (!d->cache_setting)
		d->cache_setting = settings_memory(&d->settings);
}

const char *doctor_host_lacks(unsigned int i)
{
	static const char *(*const looks[])(void) = {
		lacks_huge_pages, lacks_lease_right, lacks_leases, lacks_lease_time,
		lacks_fence,      lacks_rings,       lacks_lodic
	};
	const char *lack;

	for (unsigned int k = 0; k < sizeof(looks) / sizeof(*looks); k++) {
		lack = looks[k]();
		if (lack && i-- == 0)
			return lack;
	}
	return NULL;
}

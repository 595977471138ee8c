/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What this host lacks, and whether the program's memory has room for a cache. The forecast takes
 * for granted one that holds all files, beside the kernel's page cache. */
#define _GNU_SOURCE
#include <linux/membarrier.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cli/doctor.h"
#include "cli/text.h"
#include "lib/room.h"
#include "lib/service/service.h"
#include "lib/settings.h"

/* ---- its memory ---- */

void doctor_memory_look(struct doctor_memory *m, int pid)
{
	long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
	char list[32] = ROOM_LIST;
	struct room room;

	room_look(list, ROOM_MOUNT, &room);
	m->room_bytes = room.left;
	if (pid) {
		snprintf(list, sizeof(list), "/proc/%d/cgroup", pid);
		room_look(list, ROOM_MOUNT, &room);
	}
	m->bytes = pages > 0 ? (uint64_t)pages * (uint64_t)page_bytes : UINT64_MAX;
	m->grouped = room.least < m->bytes;
	if (m->grouped)
		m->bytes = room.least;
}

/* What the page cache would hold of the file. Of reads that keep their offset nobody knows where
 * they were, and so they are taken as different ones. */
static uint64_t touched_bytes(const struct doctor_file *f)
{
	uint64_t blocks = f->blocks * SEEN_BLOCK_BYTES;
	uint64_t others = doctor_sum(f->counts.bytes) - f->counts.bytes[RUN_COULD];

	others = others < f->size ? others : f->size;
	return blocks > others ? blocks : others;
}

void doctor_memory_judge(struct doctor *d)
{
	struct doctor_memory *m = &d->memory;
	uint64_t cache = doctor_cache_setting(), needed = d->gain.cache_bytes;

	m->touched_bytes = 0;
	for (size_t i = 0; i < d->nr_files; i++)
		m->touched_bytes += touched_bytes(&d->files[i]);
	m->fit = DOCTOR_FITS;
	if (needed == 0)
		return;
	if (m->touched_bytes > m->bytes)
		m->fit = DOCTOR_EXCEEDS;
	else if (needed > cache &&
	         d->counts.in_order_bytes * 2 > d->counts.bytes[RUN_COULD])
		m->fit = DOCTOR_PASSES;
	else if ((needed < cache ? needed : cache) > m->bytes - m->touched_bytes)
		m->fit = DOCTOR_CROWDED;
}

const char *doctor_memory_why(const struct doctor *d)
{
	static char why[DOCTOR_WHY_BYTES];
	const struct doctor_memory *m = &d->memory;
	const char *whose = m->grouped ? "its memory limit is" : "this machine has";
	struct text limit = text_bytes(m->bytes),
		    touched = text_bytes(m->touched_bytes);

	why[0] = '\0';
	if (m->fit == DOCTOR_EXCEEDS)
		snprintf(
			why, sizeof(why),
			"its files take %s and %s %s: a second cache leaves less for each, and "
			"more reads wait for the disk",
			touched.s, whose, limit.s);
	else if (m->fit == DOCTOR_PASSES)
		snprintf(
			why, sizeof(why),
			"it reads %s in order and the cache has %s: each pass pushes out "
			"what the next one wants first",
			text_bytes(d->gain.cache_bytes).s,
			text_bytes(doctor_cache_setting()).s);
	else if (m->fit == DOCTOR_CROWDED)
		snprintf(
			why, sizeof(why),
			"its files take %s in the page cache and the cache has them a second "
			"time, and %s %s: reads may wait for the disk",
			touched.s, whose, limit.s);
	return why;
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

/* The default, or what the settings say. */
static uint64_t cache_size(void)
{
	static struct settings s;
	uint64_t bytes = 0;

	if (settings_gather(&s, settings_privileged()) == 0)
		bytes = s.memory_bytes;
	settings_free(&s);
	return bytes ? bytes : SERVICE_DEFAULT_CACHE_BYTES;
}

uint64_t doctor_cache_setting(void)
{
	static uint64_t bytes;

	if (!bytes)
		bytes = cache_size();
	return bytes;
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

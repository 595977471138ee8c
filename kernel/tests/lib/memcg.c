// SPDX-License-Identifier: GPL-2.0
#include "memcg.h"
#include "clock.h"
#include "text.h"

#define MEMCG_ROOT "/sys/fs/cgroup"
#define MEMCG_DIR MEMCG_ROOT "/lodic-test"

bool memcg_make(void)
{
	text_append(MEMCG_ROOT "/cgroup.subtree_control", "+memory");
	if (mkdir(MEMCG_DIR, 0755) && errno != EEXIST)
		return false;
	return !access(MEMCG_DIR "/memory.max", W_OK);
}

int memcg_enter(void)
{
	return text_write(MEMCG_DIR "/cgroup.procs", "0");
}

int memcg_limit(u64 bytes)
{
	return text_write_number(MEMCG_DIR "/memory.max", bytes);
}

/* The number behind a name in one of the group's files; -1: there is none. */
static long long memcg_number(const char *path, const char *name)
{
	FILE *f = fopen(path, "re");
	long long n, found = -1;
	char word[32];

	while (f && fscanf(f, "%31s %lld", word, &n) == 2) {
		if (!strcmp(word, name))
			found = n;
	}
	if (f)
		fclose(f);
	return found;
}

long long memcg_event(const char *name)
{
	return memcg_number(MEMCG_DIR "/memory.events", name);
}

long long memcg_stat(const char *name)
{
	return memcg_number(MEMCG_DIR "/memory.stat", name);
}

void memcg_remove(void)
{
	u32 tries;

	for (tries = 0; rmdir(MEMCG_DIR) && errno == EBUSY && tries < 50; tries++)
		clock_sleep_ms(20);
}

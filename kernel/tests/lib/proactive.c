// SPDX-License-Identifier: GPL-2.0
#include "proactive.h"
#include "text.h"

#define ROOT "/sys/fs/cgroup"
#define GROUP ROOT "/lodic-reclaim"

static int reclaim_fd = -1;

int proactive_enter(void)
{
	int err = text_write(ROOT "/cgroup.subtree_control", "+memory");

	if (err)
		return err;
	if (mkdir(GROUP, 0755) && errno != EEXIST)
		return -errno;
	reclaim_fd = open(GROUP "/memory.reclaim", O_WRONLY | O_CLOEXEC);
	if (reclaim_fd < 0)
		return -errno;
	return text_write_number(GROUP "/cgroup.procs", getpid());
}

static int proactive_ask(size_t bytes, const char *how)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "%zu%s", bytes, how);

	return pwrite(reclaim_fd, text, n, 0) == n ? 0 : -errno;
}

int proactive_reclaim(size_t bytes)
{
	return proactive_ask(bytes, "");
}

int proactive_reclaim_files(size_t bytes)
{
	return proactive_ask(bytes, " swappiness=0");
}

u64 proactive_stat(const char *name)
{
	FILE *f = fopen(GROUP "/memory.stat", "re");
	unsigned long long value = 0, found = 0;
	char line[128], word[64];

	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%63s %llu", word, &value) == 2 && !strcmp(word, name))
			found = value;
	fclose(f);
	return found;
}

void proactive_leave(void)
{
	if (reclaim_fd >= 0)
		close(reclaim_fd);
	reclaim_fd = -1;
	text_write_number(ROOT "/cgroup.procs", getpid());
	rmdir(GROUP);
}

int proactive_age(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/clear_refs", pid);
	return text_write(path, "1");
}

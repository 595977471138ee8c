// SPDX-License-Identifier: GPL-2.0
#include "block.h"
#include "ktap.h"
#include "text.h"

#include <dirent.h>

#define BLOCKS "/sys/devices/system/memory"
/* Linux tries without end. A signal stops it. */
#define OFFLINE_SECONDS 60

static int up(const void *a, const void *b)
{
	return (int)*(const u32 *)a - (int)*(const u32 *)b;
}

u32 block_list(u32 node, u32 *ret_ids, u32 most)
{
	struct dirent *entry;
	char path[100];
	u32 nr = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%u", node);
	dir = opendir(path);
	while (dir && nr < most && (entry = readdir(dir)))
		nr += sscanf(entry->d_name, "memory%u", &ret_ids[nr]) == 1;
	if (dir)
		closedir(dir);
	qsort(ret_ids, nr, sizeof(*ret_ids), up);
	return nr;
}

u32 block_of(u64 frame)
{
	static u64 bytes;
	FILE *f;

	if (!bytes) {
		f = fopen(BLOCKS "/block_size_bytes", "re");
		if (!f || fscanf(f, "%lx", &bytes) != 1 || !bytes)
			ktap_bail("block_size_bytes");
		fclose(f);
	}
	return frame * PAGE / bytes;
}

static int block_set(u32 id, const char *state)
{
	char path[100];

	snprintf(path, sizeof(path), BLOCKS "/memory%u/state", id);
	return text_write(path, state);
}

int block_offline(u32 id)
{
	int status = 0;
	pid_t pid = fork();

	if (!pid) {
		alarm(OFFLINE_SECONDS);
		_exit(-block_set(id, "offline"));
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		ktap_bail("fork");
	if (!WIFEXITED(status)) {
		ktap_fail("block %u is not offline after %d s", id, OFFLINE_SECONDS);
		return -EINTR;
	}
	return -WEXITSTATUS(status);
}

int block_online(u32 id, bool movable)
{
	return block_set(id, movable ? "online_movable" : "online_kernel");
}

bool block_is_movable(u32 id)
{
	char path[100];

	snprintf(path, sizeof(path), BLOCKS "/memory%u/valid_zones", id);
	return text_has_word(path, "Movable");
}

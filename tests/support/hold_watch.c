/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: hold_watch.h. */
#define _GNU_SOURCE
#include "tests/support/hold_watch.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/look.h"

#define NAME "/memfd:lodic-hold"
#define STOP_MS 50
#define KERNEL_BLOCK 512u
#define MOST_MEMFDS 4096u
#define LEAST_BYTES ((u64)1 << 20) /* of what a service holds for others */

int hold_watch_stat(const char *socket, struct lodic_stat *ret_stat, int *ret_pid)
{
	struct look *look;
	int err = look_open(socket, &look, ret_pid);

	if (err)
		return err;
	err = look_stat(look, ret_stat);
	look_close(look);
	return err;
}

int hold_watch_drop(const char *socket)
{
	struct look_dropped total = { 0 };
	struct look *look;
	int pid, err = look_open(socket, &look, &pid);

	if (err)
		return err;
	err = look_drop(look, 0, LOOK_ALL, &total);
	look_close(look);
	return err;
}

static int hold_watch_add(void *ctx, const void *record)
{
	*(u64 *)ctx += ((const struct look_tier *)record)->holds_came;
	return 0;
}

u64 hold_watch_move(const char *socket, const char *path, u32 *to)
{
	struct look *look;
	struct stat st;
	u64 came = 0;
	int pid;

	if (stat(path, &st) != 0 || look_open(socket, &look, &pid) != 0)
		return 0;
	*to ^= 1;
	/* Nobody may have opened it yet. */
	(void)look_move(look, st.st_dev, st.st_ino, (enum look_tier_kind) * to);
	(void)look_list(look, LOOK_TIERS, hold_watch_add, &came);
	look_close(look);
	return came;
}

/* Inode numbers of memfds. */
struct inodes {
	u32 nr;
	u64 numbers[MOST_MEMFDS];
};

static bool inodes_have(const struct inodes *set, u64 number)
{
	for (u32 i = 0; i < set->nr; i++)
		if (set->numbers[i] == number)
			return true;
	return false;
}

/* Calls each() with what every link in the folder that names a hold leads to. */
static bool hold_watch_links(int pid, const char *folder_name,
                             void (*each)(void *ctx, const struct statx *st), void *ctx)
{
	char path[64], link[64];
	struct dirent *entry;
	struct statx st;
	DIR *folder;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, folder_name);
	folder = opendir(path);
	if (!folder)
		return false;
	while ((entry = readdir(folder)) != NULL) {
		n = readlinkat(dirfd(folder), entry->d_name, link, sizeof(link));
		if (n >= (ssize_t)strlen(NAME) &&
		    strncmp(link, NAME, strlen(NAME)) == 0 &&
		    statx(dirfd(folder), entry->d_name, 0,
		          STATX_BASIC_STATS | STATX_BTIME, &st) == 0)
			each(ctx, &st);
	}
	closedir(folder);
	return true;
}

struct summer {
	struct hold_memory memory;
	struct inodes seen;
};

static void summer_each(void *ctx, const struct statx *st)
{
	struct summer *s = ctx;

	if (inodes_have(&s->seen, st->stx_ino))
		return;
	REQUIRE(s->seen.nr < MOST_MEMFDS, "too many memfds");
	s->seen.numbers[s->seen.nr++] = st->stx_ino;
	s->memory.nr++;
	s->memory.bytes += st->stx_size;
	s->memory.present += st->stx_blocks * KERNEL_BLOCK;
}

bool hold_watch_memory(int pid, struct hold_memory *ret_memory)
{
	struct summer s = { 0 };

	if (!hold_watch_links(pid, "fd", summer_each, &s))
		return false;
	*ret_memory = s.memory;
	return true;
}

struct stranger {
	struct summer *summer;
	struct statx since;
};

static void stranger_each(void *ctx, const struct statx *st)
{
	struct stranger *s = ctx;
	const struct statx_timestamp *born = &st->stx_btime,
				     *since = &s->since.stx_mtime;

	/* Copies are a holder's own. What an earlier service made is not counted by this one. */
	if (st->stx_size < LEAST_BYTES || !(st->stx_mask & STATX_BTIME) ||
	    born->tv_sec < since->tv_sec ||
	    (born->tv_sec == since->tv_sec && born->tv_nsec <= since->tv_nsec))
		return;
	s->summer->memory.nr_uncounted += !inodes_have(&s->summer->seen, st->stx_ino);
}

static bool hold_watch_all(int pid, const struct hold_watched *watched,
                           struct hold_memory *ret_memory)
{
	struct summer sum = { 0 };
	struct stranger stranger = { .summer = &sum };

	if (!hold_watch_links(pid, "fd", summer_each, &sum))
		return false;
	if (statx(AT_FDCWD, watched->since, 0, STATX_BASIC_STATS, &stranger.since) != 0)
		return false;
	for (u32 i = 0; i < watched->nr_pids; i++)
		if (watched->pids[i] > 0)
			hold_watch_links(watched->pids[i], "map_files", stranger_each,
			                 &stranger);
	*ret_memory = sum.memory;
	return true;
}

/* Is every thread stopped? */
static bool hold_watch_is_stopped(int pid)
{
	char path[300], text[300];
	struct dirent *entry;
	bool stopped = true;
	const char *state;
	DIR *folder;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	folder = opendir(path);
	if (!folder)
		return false;
	while (stopped && (entry = readdir(folder)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%s/stat", pid,
		         entry->d_name);
		file = fopen(path, "re");
		if (!file)
			continue; /* the thread has ended */
		text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
		fclose(file);
		state = strrchr(text, ')');
		stopped = state && state[2] == 'T';
	}
	closedir(folder);
	return stopped;
}

bool hold_watch_memory_at_once(int pid, const struct hold_watched *watched,
                               struct hold_memory *ret_memory)
{
	bool seen;

	*(volatile int *)watched->stopped = pid; /* before the kill(2), for the guard */
	if (kill(pid, SIGSTOP) != 0)
		return false;
	seen = WAIT_UNTIL_MS(hold_watch_is_stopped(pid), STOP_MS) &&
	       hold_watch_all(pid, watched, ret_memory) && hold_watch_is_stopped(pid);
	kill(pid, SIGCONT);
	*(volatile int *)watched->stopped = 0;
	return seen;
}

void hold_watch_guard(const int *stopped)
{
	struct pollfd end = { .events = POLLIN };
	int pid;

	end.fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	REQUIRE(end.fd >= 0, "no pidfd");
	pid = fork();
	REQUIRE(pid >= 0, "no process");
	if (pid == 0) {
		setsid();
		for (int i = 0; i <= 2; i++)
			close(i);
		while (poll(&end, 1, -1) < 0)
			;
		pid = *(const volatile int *)stopped;
		if (pid > 0)
			kill(pid, SIGCONT);
		_exit(0);
	}
	close(end.fd);
}

u32 hold_watch_nr_descriptors(int pid)
{
	char path[64];
	DIR *folder;
	u32 nr = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	folder = opendir(path);
	if (!folder)
		return 0;
	while (readdir(folder))
		nr++;
	closedir(folder);
	return nr;
}

struct lister {
	u32 pid;
	u64 bytes;
	bool found;
};

static int lister_each(void *ctx, const void *record)
{
	const struct look_hold *h = record;
	struct lister *l = ctx;

	for (u32 i = 0; h->had && i < h->nr_pids; i++) {
		if (h->pids[i] != l->pid)
			continue;
		l->found = true;
		l->bytes += h->memory;
	}
	return 0;
}

bool hold_watch_lists(const char *socket, int pid, u64 *ret_bytes)
{
	struct lister l = { .pid = (u32)pid };
	struct look *look;
	int service, err = look_open(socket, &look, &service);

	REQUIRE(err == 0, "no service: %s", strerror(-err));
	err = look_list(look, LOOK_HOLDS, lister_each, &l);
	REQUIRE(err == 0, "no list: %s", strerror(-err));
	look_close(look);
	*ret_bytes = l.bytes;
	return l.found;
}

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Programs that change files in a scenario, and what readers may see from then on. */
#include <stdio.h>

#include "check/whole/settle.h"
#include "check/whole/world_files.h"
#include "lib/port.h"

#define FILE_BYTES WORLD_FILE_BYTES
/* Only a watch hears of some cuts: a machine without faults needs so long at most. */
#define LATE_NS ((u64)1000000000)

static u32 world_find(const char *path)
{
	const struct inode *inode = files_find(path);
	u32 number = 0;

	while (number < world_nr && world_files[number].inode != inode)
		number++;
	return number;
}

void world_cuts(u32 number)
{
	world_files[number].cuts++;
	world_files[number].cut_version = world_files[number].begun;
	world_files[number].sure_ns = NS_NEVER;
}

void world_cut(const char *path)
{
	static const enum fault late[] = { FAULT_ERRNO, FAULT_DELAY, FAULT_DEATH, FAULT_STOP,
		                           FAULT_HANG };
	u32 number = world_find(path);
	bool quiet = true;
	int fd;

	for (u32 i = 0; i < sizeof(late) / sizeof(late[0]); i++)
		quiet = quiet && machine.rate[late[i]] == 0;
	fd = number < world_nr ? port_open(path) : -1;
	if (fd < 0)
		return;
	world_cuts(number);
	program_cut(fd, machine_draw((u32)(world_files[number].inode->bytes / 8) + 1) * (u64)8);
	world_files[number].cuts++;
	if (quiet)
		world_files[number].sure_ns = machine.now_ns + LATE_NS;
	port_close(fd);
}

void world_unsure(const char *path)
{
	u32 number = world_find(path);

	if (number < world_nr)
		world_cuts(number);
}

void world_replace(const char *path)
{
	static const char made[] = "/made";

	if (world_nr == WORLD_MOST_FILES || files_find(made))
		return;
	world_make(made, FILE_BYTES);
	snprintf(world_files[world_nr - 1].path, sizeof(world_files[0].path), "%s", path);
	program_rename(made, path);
}

static void world_write_all(u32 number, int fd, u64 bytes)
{
	u64 version = ++world_files[number].begun, words[512];

	for (u64 at = 0; at < bytes; at += sizeof(words)) {
		world_fill(number, version, at, words, 512);
		program_write(fd, at, words, sizeof(words));
	}
	world_files[number].complete = version;
}

void world_rewrite(const char *path, bool anew)
{
	int fd = program_open_to_write(path);
	u32 number;
	u64 bytes;

	if (fd < 0)
		return;
	for (number = 0; world_files[number].inode != fd_file_of(fd)->inode; number++)
		;
	bytes = number == WORLD_FILES ? WORLD_BIG_BYTES : FILE_BYTES;
	world_files[number].cuts++;
	if (anew || world_files[number].inode->bytes != bytes) /* it grows while others read */
		world_files[number].sure_ns = NS_NEVER;
	if (anew) {
		world_cuts(number);
		program_cut(fd, 0);
	}
	world_write_all(number, fd, bytes);
	world_files[number].cuts++;
	world_files[number].sure_ns = machine.now_ns;
	fd_close(process_now(), fd);
}

static void writer_run(void *arg)
{
	for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
		world_rewrite(world_paths[machine_draw(WORLD_FILES)], false);
		task_wait(NULL, machine.now_ns + machine_draw(2000) * (u64)1000000);
	}
}

struct process *world_writer(u32 nr_rounds)
{
	struct process *p = process_start("writer", WORLD_USER, writer_run,
	                                  (void *)(uintptr_t)nr_rounds);

	settle_expect(p);
	return p;
}

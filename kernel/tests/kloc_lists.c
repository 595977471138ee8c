// SPDX-License-Identifier: GPL-2.0
/*
 * How often a CPU's list of knodes has the one that is used (KLOC s.4.3). It needs kloc=on, and a
 * machine with one processor, so that the counts repeat. It prints CSV "workload,hits,misses": the
 * growth of list_hits and list_misses in /sys/kernel/mm/kloc/stat. A use is an open, or a page of
 * page cache that is made.
 *
 * in-turn-N: N files are open. Each in turn gets its next page, by write().
 * random-N: the next file is drawn at random.
 * small-files: 512 files, each of which is made, gets two pages, and is closed.
 * db_bench-...: RocksDB, if the guest has its db_bench. Its page cache is dropped before.
 */
#include "kloc.h"
#include "test.h"

#define ROUNDS 4096
#define FILES_MOST 64
#define SMALL_FILES 512
#define DB "db_bench --db=/mnt/ext4/lists/db --num=100000 --key_size=16 --value_size=100 " \
	   "--compression_type=none --cache_size=65536 --write_buffer_size=1048576 " \
	   "--target_file_size_base=1048576 --open_files=-1 --seed=1 --statistics=0 "
#define SAYS " >/tmp/db.log 2>&1"

static const char dir[] = "/mnt/ext4/lists";
static u8 page[PAGE];
static u64 rng = 1;

static int file_open(u32 i, int flags)
{
	char name[100];
	int fd;

	snprintf(name, sizeof(name), "%s/%u", dir, i);
	fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | flags, 0600);
	if (fd < 0)
		ktap_bail("%s", name);
	return fd;
}

static void file_append(int fd)
{
	if (write(fd, page, PAGE) != PAGE)
		ktap_bail("write");
}

static void use_files(u32 nr, bool at_random)
{
	int fds[FILES_MOST];
	u32 i;

	for (i = 0; i < nr; i++)
		fds[i] = file_open(i, O_TRUNC);
	for (i = 0; i < ROUNDS; i++)
		file_append(fds[at_random ? random_next(&rng) % nr : i % nr]);
	for (i = 0; i < nr; i++)
		close(fds[i]);
}

static void use_small_files(void)
{
	u32 i;

	for (i = 0; i < SMALL_FILES; i++) {
		int fd = file_open(1000 + i, O_EXCL);

		file_append(fd);
		file_append(fd);
		close(fd);
	}
}

static void use_command(const char *command)
{
	if (system(command))
		ktap_bail("%s", command);
}

struct workload {
	const char *name;
	u32 files; /* 0: as the command says, or small files */
	bool at_random;
	const char *command;
};

static const struct workload workloads[] = {
	{ .name = "in-turn-16", .files = 16 },
	{ .name = "in-turn-17", .files = 17 },
	{ .name = "random-16", .files = 16, .at_random = true },
	{ .name = "random-32", .files = 32, .at_random = true },
	{ .name = "random-64", .files = 64, .at_random = true },
	{ .name = "small-files" },
	{ .name = "db_bench-fillrandom", .command = DB "--benchmarks=fillrandom" SAYS },
	{ .name = "db_bench-readrandom",
	  .command = DB "--benchmarks=readrandom --reads=20000 --use_existing_db=1" SAYS },
};

int main(int argc, char **argv)
{
	u32 i;

	options_parse(argc, argv);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!kloc_there())
		return 4;
	if (mkdir(dir, 0755) || setenv("PATH", "/bin:/usr/bin", 1))
		ktap_bail("%s", dir);
	for (i = 0; i < NR(workloads); i++) {
		const struct workload *w = &workloads[i];
		long long hits, misses;

		if (w->command && access("/usr/bin/db_bench", X_OK))
			continue;
		sync();
		if (text_write("/proc/sys/vm/drop_caches", "1"))
			ktap_bail("drop_caches");
		hits = kloc_stat("list_hits");
		misses = kloc_stat("list_misses");
		if (w->command)
			use_command(w->command);
		else if (w->files)
			use_files(w->files, w->at_random);
		else
			use_small_files();
		printf("%s,%lld,%lld\n", w->name, kloc_stat("list_hits") - hits,
		       kloc_stat("list_misses") - misses);
	}
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The table of doc/proofs.md: each path of the kernel that changes a file's bytes or size. Does it
 * break a lease, and does a watch hear of it? Each row is asked of the kernel alone, and then of a
 * service with a reader. The page has the same rows, in the same words.
 *
 * --list prints them as the page has them. --fs xfs or btrfs asks the rows of ext4 there.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/outside/changes.h"
#include "tests/outside/outside.h"

#define BLOCK LODIC_BLOCK_BYTES
#define FILE_BYTES (4 * BLOCK)
#define PAGE_PATH "/doc/proofs.md"
#define PAGE_LINE_BYTES 1024
#define HERE "`proof_table`"
#define OTHER_BYTES (320ull << 20) /* xfs has no smaller ones */

/* Where the file is that is cached, and by which way it is changed. */
enum place {
	ON_EXT4,
	BY_LINK,   /* another name */
	BY_BIND,   /* another mount */
	ON_UPPER,  /* cached below an overlay, changed through it */
	ON_LOWER,  /* the same of the layer that never changes */
	ON_MERGED, /* cached through the overlay */
	ON_TMPFS,
	ON_CLONING, /* where files share blocks */
	NR_PLACES
};

static const char *const place_names[NR_PLACES] = {
	[ON_EXT4] = "ext4",
	[BY_LINK] = "ext4, by another name",
	[BY_BIND] = "ext4, by a bind mount",
	[ON_UPPER] = "ext4 as an overlay's upper layer, through the overlay",
	[ON_LOWER] = "ext4 as an overlay's lower layer, through the overlay",
	[ON_MERGED] = "overlayfs",
	[ON_TMPFS] = "tmpfs",
	[ON_CLONING] = "XFS, Btrfs",
};

struct row {
	const char *name;
	enum place place;
	bool breaks, heard; /* heard: that bytes may have changed */
	void (*change)(const struct spot *spot);
	void (*prepare)(struct spot *spot); /* before a reader comes */
	int refused;                        /* the service does not cache it */
};

#define YES true
#define NO false

static const struct row rows[] = {
	{ "open for writing", ON_EXT4, YES, NO, change_open, NULL, 0 },
	{ "open for writing, write", ON_EXT4, YES, YES, change_write, NULL, 0 },
	{ "open for writing, write", BY_LINK, YES, YES, change_write, NULL, 0 },
	{ "open for writing, write", BY_BIND, YES, YES, change_write, NULL, 0 },
	{ "open for writing, write", ON_UPPER, YES, YES, change_write, NULL, 0 },
	{ "open for writing, write", ON_LOWER, NO, NO, change_write, NULL, 0 },
	{ "open for writing, write", ON_MERGED, NO, NO, change_write, NULL,
	  -EOPNOTSUPP },
	{ "open for writing, write", ON_TMPFS, NO, NO, change_write, NULL,
	  -EMEDIUMTYPE },
	{ "open for writing, write with O_DIRECT", ON_EXT4, YES, YES, change_direct,
	  NULL, 0 },
	{ "open for writing, map, store", ON_EXT4, YES, NO, change_map, NULL, 0 },
	{ "open with O_TRUNC, for writing", ON_EXT4, YES, YES, change_trunc_written,
	  NULL, 0 },
	{ "open with O_TRUNC, for writing", ON_UPPER, YES, YES, change_trunc_written,
	  NULL, 0 },
	{ "open with O_TRUNC, O_RDONLY", ON_EXT4, NO, YES, change_trunc_readonly, NULL,
	  0 },
	{ "open with O_TRUNC, O_RDONLY", ON_UPPER, NO, YES, change_trunc_readonly, NULL,
	  0 },
	{ "truncate", ON_EXT4, YES, YES, change_truncate, NULL, 0 },
	{ "truncate", ON_UPPER, NO, YES, change_truncate, NULL, 0 },
	{ "write to a descriptor that was open before", ON_EXT4, NO, NO, change_writer,
	  change_prepare_writer, -ETXTBSY },
	{ "ftruncate of a descriptor that was open before", ON_EXT4, NO, NO,
	  change_ftruncate, change_prepare_writer, -ETXTBSY },
	{ "store to a shared mapping that was there before", ON_EXT4, NO, NO,
	  change_store, change_prepare_mapping, -ETXTBSY },
	{ "fallocate: punch a hole", ON_EXT4, YES, YES, change_punch, NULL, 0 },
	{ "fallocate: zero a range", ON_EXT4, YES, YES, change_zero, NULL, 0 },
	{ "fallocate: collapse a range", ON_EXT4, YES, YES, change_collapse, NULL, 0 },
	{ "fallocate: insert a range", ON_EXT4, YES, YES, change_insert, NULL, 0 },
	{ "copy_file_range", ON_EXT4, YES, YES, change_copy_range, NULL, 0 },
	{ "FICLONE", ON_CLONING, YES, YES, change_clone, NULL, 0 },
	{ "sendfile", ON_EXT4, YES, YES, change_sendfile, NULL, 0 },
	{ "vmsplice and splice", ON_EXT4, YES, YES, change_splice, NULL, 0 },
	{ "open and write by io_uring", ON_EXT4, YES, YES, change_uring, NULL, 0 },
	{ "swapon", ON_EXT4, YES, NO, change_swapon, NULL, 0 },
	{ "pages pinned for a ring: refused (EFAULT)", ON_EXT4, YES, NO,
	  change_register, NULL, 0 },
	{ "rename over it", ON_EXT4, NO, NO, change_rename_over, NULL, 0 },
	{ "unlink", ON_EXT4, NO, NO, change_unlink, NULL, 0 },
	{ "chmod, chown, utimes", ON_EXT4, NO, NO, change_attributes, NULL, 0 },
	{ "chattr", ON_EXT4, NO, NO, change_flags, NULL, 0 },
};
#define NR_ROWS (sizeof(rows) / sizeof(*rows))

/* ---- places ---- */

static char disk[FIXTURE_PATH_BYTES], bound[FIXTURE_PATH_BYTES],
	memory[FIXTURE_PATH_BYTES];

static const char *fs = "ext4";

/* Its image is sparse. mount(8) finds a loop device and lets it go with the mount. */
static void mount_other(const char *at)
{
	char command[4 * SPOT_PATH_BYTES];

	snprintf(
		command, sizeof(command),
		"PATH=$PATH:/sbin:/usr/sbin; modprobe -q %s; truncate -s %llu '%s.image' && "
		"mkfs.%s -q '%s.image' && mount -t %s -o loop '%s.image' '%s'",
		fs, OTHER_BYTES, at, fs, at, fs, at, at);
	if (system(command) != 0)
		fixture_skip("that file system cannot be made and mounted here");
}

static bool row_is_here(const struct row *row)
{
	if (row->place == ON_CLONING)
		return strcmp(fs, "ext4") != 0;
	return strcmp(fs, "btrfs") != 0 ||
	       (row->change != change_collapse && row->change != change_insert);
}

static void places_make(void)
{
	static const char *const layers[] = { "lower", "upper", "work", "merged" };
	char at[SPOT_PATH_BYTES], data[4 * SPOT_PATH_BYTES];

	outside_folder(disk, "disk");
	if (strcmp(fs, "ext4") == 0)
		outside_mount_ext4(disk);
	else
		mount_other(disk);
	outside_folder(bound, "bound");
	outside_mount(disk, bound, NULL, MS_BIND, NULL);
	outside_folder(memory, "memory");
	outside_mount("tmpfs", memory, "tmpfs", 0, "size=8m");
	for (u32 i = 0; i < 4; i++) {
		snprintf(at, sizeof(at), "%s/%s", disk, layers[i]);
		assert_int_equal(mkdir(at, 0755), 0);
	}
	snprintf(data, sizeof(data),
	         "lowerdir=%s/lower,upperdir=%s/upper,workdir=%s/work", disk, disk,
	         disk);
	outside_mount("overlay", at, "overlay", 0, data);
}

static void file_make(const char *path)
{
	int fd = fixture_open(path, O_WRONLY | O_CREAT | O_EXCL);
	char bytes[FILE_BYTES];

	memset(bytes, 'A', FILE_BYTES);
	REQUIRE(write(fd, bytes, FILE_BYTES) == FILE_BYTES, "%s", strerror(errno));
	close(fd);
}

static void spot_make(struct spot *s, const struct row *row)
{
	/* In which folder the file is made and read, and in which it is changed. */
	static const char *const folders[NR_PLACES][2] = {
		[ON_UPPER] = { "/upper", "/merged" },
		[ON_LOWER] = { "/lower", "/merged" },
		[ON_MERGED] = { "/merged", "/merged" },
	};
	const char *const *in = folders[row->place];
	const char *root = row->place == ON_TMPFS ? memory : disk;
	static u32 nr;

	*s = (struct spot){ .writer = -1 };
	nr++;
	snprintf(s->path, SPOT_PATH_BYTES, "%s%s/file%u", root, in[0] ? in[0] : "", nr);
	snprintf(s->via, SPOT_PATH_BYTES, "%s%s/file%u",
	         row->place == BY_BIND ? bound : root, in[1] ? in[1] : "", nr);
	snprintf(s->other, SPOT_PATH_BYTES, "%s/other%u", root, nr);
	/* The overlay must know the file that it shows. */
	file_make(row->place == ON_UPPER ? s->via : s->path);
	if (row->place == BY_LINK) {
		snprintf(s->via, SPOT_PATH_BYTES, "%s/link%u", disk, nr);
		assert_int_equal(link(s->path, s->via), 0);
	}
	if (row->prepare)
		row->prepare(s);
}

static void spot_free(struct spot *s)
{
	if (s->writer >= 0)
		close(s->writer);
	if (s->mapped)
		munmap(s->mapped, BLOCK);
	unlink(s->path);
	unlink(s->via);
	unlink(s->other);
}

/* ---- the kernel alone ---- */

static bool heard_bytes(int watches)
{
	struct inotify_event events[64];
	ssize_t n = read(watches, events, sizeof(events));
	bool heard = false;

	for (ssize_t i = 0; i < n / (ssize_t)sizeof(*events); i++)
		heard |= events[i].mask & IN_MODIFY;
	return heard;
}

static pid_t change_begin(const struct row *row, const struct spot *spot)
{
	pid_t pid = fixture_fork();

	if (pid == 0) {
		row->change(spot);
		_exit(0);
	}
	return pid;
}

static void ask_kernel(const struct row *row)
{
	int watches = inotify_init1(IN_NONBLOCK | IN_CLOEXEC), fd, status;
	bool breaks = false;
	struct spot spot;
	pid_t pid;

	spot_make(&spot, row);
	fd = fixture_open(spot.path, O_RDONLY);
	assert_true(inotify_add_watch(watches, spot.path, IN_MODIFY | IN_ATTRIB) >= 0);
	if (fcntl(fd, F_SETLEASE, F_RDLCK) != 0) {
		REQUIRE(row->prepare && errno == EAGAIN, "%s: %s", row->name,
		        strerror(errno));
		goto out;
	}
	pid = change_begin(row, &spot);
	assert_true(WAIT_UNTIL(({
		if (fcntl(fd, F_GETLEASE) == F_UNLCK && !breaks) {
			breaks = true; /* the change waits for this */
			fcntl(fd, F_SETLEASE, F_UNLCK);
		}
		waitpid(pid, &status, WNOHANG) == pid;
	})));
	REQUIRE(status == 0, "%s: the change has failed", row->name);
	breaks |= fcntl(fd, F_GETLEASE) == F_UNLCK;
	REQUIRE(breaks == row->breaks, "%s on %s: breaks %d", row->name,
	        place_names[row->place], breaks);
	REQUIRE(heard_bytes(watches) == row->heard, "%s on %s: heard %d", row->name,
	        place_names[row->place], !row->heard);
out:
	close(fd);
	close(watches);
	spot_free(&spot);
}

/* ---- a service and a reader ---- */

static bool is_right(struct test_bed *b, struct lodic_file *file, int fd)
{
	char read[FILE_BYTES], right[FILE_BYTES];
	ssize_t n = pread(fd, right, FILE_BYTES, 0);

	return lodic_read(b->context, file, read, FILE_BYTES, 0) == n && n >= 0 &&
	       memcmp(read, right, (size_t)n) == 0;
}

static void ask_reader(struct test_bed *b, const struct row *row)
{
	struct lodic_file *file;
	struct spot spot;
	int fd;

	spot_make(&spot, row);
	fd = fixture_open(spot.path, O_RDONLY);
	assert_int_equal(lodic_open(b->lodic, fd, &file), 0);
	if (lodic_prefetch(b->context, file, 0, 0, LODIC_WAIT) != 0)
		REQUIRE(row->refused, "%s on %s: not cached", row->name,
		        place_names[row->place]);
	REQUIRE(lodic_file_cached(file) == row->refused, "%s on %s: %s", row->name,
	        place_names[row->place], lodic_strerror(lodic_file_cached(file)));
	assert_true(is_right(b, file, fd));
	assert_int_equal(fixture_wait(change_begin(row, &spot)), 0);
	/* Only what is heard may come a little late. */
	if (row->heard && !row->breaks)
		assert_true(WAIT_UNTIL(is_right(b, file, fd)));
	REQUIRE(is_right(b, file, fd), "%s on %s: a stale read", row->name,
	        place_names[row->place]);
	if (!row->refused && !row->breaks && !row->heard)
		assert_int_equal(lodic_file_cached(file), 0);
	lodic_close(file);
	close(fd);
	spot_free(&spot);
}

static void each_row_breaks_and_is_heard_as_the_table_says(void **state)
{
	(void)state;
	for (u32 i = 0; i < NR_ROWS; i++)
		if (rows[i].place != ON_MERGED && rows[i].place != ON_TMPFS &&
		    row_is_here(&rows[i]))
			ask_kernel(&rows[i]);
}

static void each_row_no_stale_read(void **state)
{
	struct test_bed b;

	(void)state;
	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, BLOCK);
	for (u32 i = 0; i < NR_ROWS; i++)
		if (row_is_here(&rows[i]))
			ask_reader(&b, &rows[i]);
	test_bed_free(&b);
}

/* ---- the page ---- */

static void row_print(char *text, size_t bytes, const struct row *row)
{
	snprintf(text, bytes, "| %s | %s | %s | %s | " HERE " |", row->name,
	         place_names[row->place],
	         row->refused  ? "not cached"
	         : row->breaks ? "yes"
	                       : "no",
	         row->refused ? "-"
	         : row->heard ? "yes"
	                      : "no");
}

/* Row i of the table is the page's i-th row that names this program. */
static void page_has_the_same_rows(void **state)
{
	char path[4096], line[PAGE_LINE_BYTES], text[PAGE_LINE_BYTES];
	const char *source = getenv("LODIC_SOURCE");
	u32 nr = 0;
	FILE *page;

	(void)state;
	if (!source)
		skip();
	snprintf(path, sizeof(path), "%s" PAGE_PATH, source);
	page = fopen(path, "r");
	assert_non_null(page);
	while (fgets(line, sizeof(line), page)) {
		line[strcspn(line, "\n")] = '\0';
		if (line[0] != '|' || !strstr(line, "| " HERE " |"))
			continue;
		assert_true(nr < NR_ROWS);
		row_print(text, sizeof(text), &rows[nr++]);
		assert_string_equal(line, text);
	}
	fclose(page);
	assert_int_equal(nr, NR_ROWS);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(page_has_the_same_rows),
		cmocka_unit_test(each_row_breaks_and_is_heard_as_the_table_says),
		cmocka_unit_test(each_row_no_stale_read),
	};
	const struct fixture_option options[] = { { "--fs", NULL, &fs }, { 0 } };
	char text[PAGE_LINE_BYTES];

	if (argc > 1 && strcmp(argv[1], "--list") == 0) {
		for (u32 i = 0; i < NR_ROWS; i++) {
			row_print(text, sizeof(text), &rows[i]);
			puts(text);
		}
		return 0;
	}
	outside_begin_with(argc, argv, options);
	signal(SIGIO, SIG_IGN); /* a lease of the test's own */
	places_make();
	return cmocka_run_group_tests_name("proof table", tests, NULL, NULL);
}

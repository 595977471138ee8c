// SPDX-License-Identifier: GPL-2.0
/*
 * Which paths of the kernel change a file's bytes or size, and does each break a read lease before
 * it does? A row is a path. A column is a file system, or a way to reach the file past the name of
 * the lease. A cell says what happened (see lib/proof.h), which must be what the table expects.
 * Lines "proof|PATH|COLUMN|CELL" are for `kernel/run proofs`.
 *
 * With -s PATH one row runs. The word "all" adds file systems that only the kernel of
 * `kernel/run proofs` has.
 */
#include "knfsd.h"
#include "proof.h"
#include "test.h"

#define OVERLAY "/tmp/lodic-overlay"
#define BIND "/tmp/lodic-bind"
#define NFS3 "/tmp/lodic-nfs3"
#define NFS4 "/tmp/lodic-nfs4"

struct row {
	struct proof_path path;
	bool remote; /* also by way of a server */
	const char *expect;
};

static const struct row rows[] = {
	/* Opens. */
	{ { "open-rdonly", NULL, path_open_rdonly }, true, "kept same" },
	{ { "open-write", NULL, path_open_write }, true, "broken same" },
	{ { "open-trunc-rdonly", NULL, path_open_trunc_rdonly },
	  true,
	  "broken changed modify" },
	{ { "open-trunc-wronly", NULL, path_open_trunc_wronly },
	  true,
	  "broken changed modify" },
	{ { "open-by-handle", NULL, path_open_handle }, false, "broken same" },
	{ { "open-proc-fd", NULL, path_open_proc }, false, "broken same" },
	{ { "open-hard-link", NULL, path_open_link }, false, "broken same attrib" },
	{ { "truncate", NULL, path_truncate_less }, true, "broken changed modify" },
	{ { "truncate-longer", NULL, path_truncate_more },
	  true,
	  "broken changed modify" },
	/* What needs a descriptor for writing, opened now. */
	{ { "write", NULL, path_write }, true, "broken changed modify" },
	{ { "write-direct", NULL, path_direct }, true, "broken changed modify" },
	{ { "write-aio", NULL, path_aio }, false, "broken changed" },
	{ { "write-uring", NULL, path_uring }, false, "broken changed modify" },
	{ { "ftruncate", NULL, path_ftruncate }, true, "broken changed modify" },
	{ { "punch", NULL, path_punch }, true, "broken changed modify" },
	{ { "zero-range", NULL, path_zero }, false, "broken changed modify" },
	{ { "collapse-range", NULL, path_collapse }, false, "broken changed modify" },
	{ { "insert-range", NULL, path_insert }, false, "broken changed modify" },
	{ { "copy-file-range", NULL, path_copy_range }, true, "broken changed modify" },
	{ { "clone", NULL, path_clone }, true, "broken EOPNOTSUPP" },
	{ { "sendfile", NULL, path_sendfile }, false, "broken changed modify" },
	{ { "splice", NULL, path_splice }, false, "broken changed modify" },
	{ { "mmap", NULL, path_mmap }, true, "broken changed" },
	{ { "swap-boot", NULL, path_swap_boot }, false, "broken ENOTTY" },
	{ { "loop-attach", NULL, path_loop }, false, "broken changed" },
	{ { "swapon", NULL, path_swapon }, false, "broken EINVAL" },
	/* What is there before the lease. */
	{ { "fd-before", before_open, path_write_open },
	  true,
	  "refused-EAGAIN changed modify" },
	{ { "mmap-before", before_mmap, path_store }, true, "refused-EAGAIN changed" },
	{ { "uring-file-before", before_uring_file, path_uring_file },
	  false,
	  "refused-EAGAIN changed modify" },
	{ { "fd-in-flight", before_in_flight, path_in_flight },
	  false,
	  "refused-EAGAIN changed modify" },
	{ { "loop-before", before_loop, path_loop_write },
	  false,
	  "refused-EAGAIN changed" },
	{ { "swap-before", before_swapon, path_swapoff }, false, "none EINVAL" },
	{ { "uring-pinned", before_uring_pinned, path_uring_pinned },
	  false,
	  "none EFAULT" },
	{ { "direct-read-pinned", before_direct_read, path_direct_read },
	  false,
	  "kept changed" },
	/* What is refused, or changes another inode, or no byte. */
	{ { "mprotect", before_mmap_rdonly, path_mprotect }, false, "kept EACCES" },
	{ { "proc-mem", before_mmap_rdonly, path_proc_mem }, false, "kept EIO" },
	{ { "loop-attach-rdonly", NULL, path_loop_rdonly }, false, "kept EPERM" },
	{ { "clone-source", NULL, path_clone_source }, false, "kept EOPNOTSUPP" },
	{ { "dedupe", NULL, path_dedupe }, false, "kept EOPNOTSUPP" },
	{ { "rename", NULL, path_rename }, true, "kept same" },
	{ { "rename-over", NULL, path_rename_over }, true, "kept same attrib" },
	{ { "rename-exchange", NULL, path_rename_exchange }, false, "kept same" },
	{ { "unlink", NULL, path_unlink }, true, "kept same attrib" },
	{ { "link", NULL, path_link }, false, "kept same attrib" },
	{ { "chmod", NULL, path_chmod }, true, "kept same attrib" },
	{ { "chown", NULL, path_chown }, true, "kept same attrib" },
	{ { "utimes", NULL, path_utimes }, true, "kept same attrib" },
	{ { "setxattr", NULL, path_setxattr }, false, "kept same attrib" },
	{ { "chattr", NULL, path_chattr }, false, "kept same" },
	/* Below the file system. */
	{ { "raw-disk", NULL, path_raw_disk }, false, "kept ENODEV" },
};

/* Where a cell is neither what its row nor what its column says. MAYBE: the event may be there. */
#define MAYBE "?"

static const struct {
	const char *path, *columns, *cell; /* columns: words */
} exceptions[] = {
	{ "open-write", "nfs3", "kept same" }, /* no OPEN in version 3 */
	/* What the server and overlayfs do by notify_change(), which breaks no lease. */
	{ "open-trunc-rdonly", "upper nfs3", "kept changed modify" },
	{ "open-trunc-rdonly", "nfs4", "kept EACCES" },
	/* overlayfs copies the file up without its bytes when it is opened, before the break. */
	{ "open-trunc-rdonly", "overlay-lower", "early changed modify" },
	{ "open-trunc-wronly", "nfs3", "kept changed modify" },
	{ "truncate", "upper nfs3 nfs4", "kept changed modify" },
	{ "truncate-longer", "upper nfs3 nfs4", "kept changed modify" },
	{ "ftruncate", "nfs3", "kept changed modify" },
	/* overlayfs asks for none of its own file when it maps that of the layer. */
	{ "mmap-before", "overlay overlay-lower", "kept changed" },
	/* The client of version 3 has the file open, the server has not. */
	{ "fd-before", "nfs3", "broken changed modify" },
	{ "mmap-before", "nfs3", "broken changed modify" },
	{ "mmap-before", "nfs4", "refused-EAGAIN changed modify" },
	{ "mmap", "nfs3 nfs4", "broken changed modify" },
	/* Splices into a file of a layer make no event there, writes of a loop device do. */
	{ "sendfile", "upper", "broken changed" },
	{ "splice", "upper", "broken changed" },
	{ "write-aio", "upper",
	  "broken changed modify" MAYBE }, /* if it is done at once */
	{ "loop-attach", "upper", "broken changed modify" },
	{ "loop-before", "upper", "refused-EAGAIN changed modify" },
	/* Only tmpfs lets pages of a file be pinned for long. */
	{ "uring-pinned", "tmpfs", "kept changed" },
	/* What only some file systems can do. */
	{ "open-by-handle", "overlay overlay-lower upper lower", "kept EOPNOTSUPP" },
	{ "punch", "nfs3", "kept EOPNOTSUPP" },
	{ "zero-range", "tmpfs", "broken EOPNOTSUPP" },
	{ "collapse-range", "tmpfs btrfs", "broken EOPNOTSUPP" },
	{ "insert-range", "tmpfs btrfs", "broken EOPNOTSUPP" },
	{ "clone", "xfs btrfs", "broken changed modify" },
	{ "clone", "nfs3", "kept EOPNOTSUPP" },
	{ "clone-source", "xfs btrfs", "kept same" },
	{ "dedupe", "xfs btrfs", "kept same" },
	{ "dedupe", "overlay upper", "kept EINVAL" },
	{ "dedupe", "overlay-lower lower", "kept EPERM" },
	/* The second gets the blocks of the first, which had the same bytes. */
	{ "swap-boot", "ext4", "broken changed" },
	{ "swap-boot", "bind", "broken same" },
	{ "swap-boot", "under-upper under-lower", "kept same" },
	{ "swapon", "ext4 xfs bind f2fs", "broken same" },
	{ "swapon", "under-upper under-lower", "kept same" },
	{ "swap-before", "ext4 xfs bind f2fs", "refused-EAGAIN same" },
	{ "swap-before", "under-upper under-lower", "kept same" },
	{ "raw-disk", "ext4 xfs f2fs", "kept changed" },
};

/* What a column says of all rows. */
enum rule {
	SAME_INODE, /* as the row says */
	COPIES_UP,  /* the path works on a copy, so the file stays as it is */
	BENEATH, /* the file changes below the one with the lease and the watch: neither hears */
};

struct column {
	const char *name;
	const char *kind; /* the file system below */
	/* Where the file is made, where the lease is held, where the path goes: see place(). */
	const char *make, *lease, *via;
	enum rule rule;
	bool remote, more; /* by way of a server; only with the word "all" */
	struct test_fs *fs;
};

static struct column columns[] = {
	{ .name = "ext4", .kind = "ext4" },
	{ .name = "xfs", .kind = "xfs" },
	{ .name = "tmpfs", .kind = "tmpfs" },
	{ .name = "bind", .kind = "ext4", .via = BIND },
	{ .name = "overlay",
	  .kind = "ext4",
	  .make = OVERLAY,
	  .lease = OVERLAY,
	  .via = OVERLAY },
	{ .name = "overlay-lower",
	  .kind = "ext4",
	  .make = "lower",
	  .lease = OVERLAY,
	  .via = OVERLAY },
	{ .name = "upper",
	  .kind = "ext4",
	  .make = "upper",
	  .lease = "upper",
	  .via = OVERLAY },
	{ .name = "lower",
	  .kind = "ext4",
	  .make = "lower",
	  .lease = "lower",
	  .via = OVERLAY,
	  .rule = COPIES_UP },
	{ .name = "under-upper",
	  .kind = "ext4",
	  .make = "upper",
	  .lease = OVERLAY,
	  .via = "upper",
	  .rule = BENEATH },
	{ .name = "under-lower",
	  .kind = "ext4",
	  .make = "lower",
	  .lease = OVERLAY,
	  .via = "lower",
	  .rule = BENEATH },
	{ .name = "btrfs", .kind = "btrfs", .more = true },
	{ .name = "f2fs", .kind = "f2fs", .more = true },
	{ .name = "nfs3", .kind = "ext4", .via = NFS3, .remote = true, .more = true },
	{ .name = "nfs4", .kind = "ext4", .via = NFS4, .remote = true, .more = true },
};

/* Name 0 of column c: a whole path as it is, or a folder of its file system's. */
static void place(const struct column *c, const char *folder, const char *name,
                  char ret_path[PROOF_NAME])
{
	if (folder && folder[0] == '/')
		snprintf(ret_path, PROOF_NAME, "%s/%s", folder, name);
	else
		snprintf(ret_path, PROOF_NAME, "%s/proofs/%s/%s", c->fs->dir,
		         folder ? folder : "plain", name);
}

static bool has_word(const char *words, const char *word)
{
	size_t len = strlen(word);
	const char *at = words;

	while ((at = strstr(at, word))) {
		if ((at == words || at[-1] == ' ') && (!at[len] || at[len] == ' '))
			return true;
		at += len;
	}
	return false;
}

static void expected(const struct row *r, const struct column *c, char ret_cell[100])
{
	char lease[40], effect[40];
	u32 i;

	for (i = 0; i < NR(exceptions); i++) {
		if (strcmp(exceptions[i].path, r->path.name) ||
		    !has_word(exceptions[i].columns, c->name))
			continue;
		snprintf(ret_cell, 100, "%s", exceptions[i].cell);
		return;
	}
	snprintf(ret_cell, 100, "%s", r->expect);
	sscanf(r->expect, "%39s %39s", lease, effect);
	if (c->rule == SAME_INODE || !strcmp(lease, "none"))
		return;
	if (c->rule == COPIES_UP && !strcmp(effect, "changed"))
		strcpy(effect, "same");
	snprintf(ret_cell, 100, "kept %s", effect);
}

static void without_events(char *cell)
{
	static const char *const events[] = { " modify", " attrib" };
	char *at;
	u32 i;

	for (i = 0; i < NR(events); i++) {
		at = strstr(cell, events[i]);
		if (at)
			*at = 0;
	}
}

/* Whether the cell is what is expected. */
static bool cell_is(const char *cell, const char *expect)
{
	const char *maybe = strstr(expect, " modify" MAYBE);

	if (!maybe)
		return !strcmp(cell, expect);
	return !strncmp(cell, expect, maybe - expect) &&
	       (!cell[maybe - expect] || !strcmp(cell + (maybe - expect), " modify"));
}

static void run_cell(const struct row *r, const struct column *c)
{
	struct scene s = { .fd = -1 };
	char make[PROOF_NAME], name[60], other[64];
	char expect[100];
	const char *cell;

	/* A name of its own, so that no cache of names knows it. */
	snprintf(name, sizeof(name), "%s-%s", r->path.name, c->name);
	snprintf(other, sizeof(other), "%s-2", name);
	place(c, c->make, name, make);
	place(c, c->lease, name, s.path);
	place(c, c->via, name, s.via);
	place(c, c->via, other, s.other);
	/* An extent's address is a place on the disk, except in btrfs. */
	if (!c->via && !opt.dir && strcmp(c->kind, "btrfs"))
		s.device = fs_device(c->kind);
	cell = proof_run(&s, make, &r->path);
	printf("proof|%s|%s|%s\n", r->path.name, c->name, cell);
	expected(r, c, expect);
	if (!proof_has_watch())
		without_events(expect);
	if (!cell_is(cell, expect))
		ktap_fail("%s: %s, not %s", c->name, cell, expect);
}

/* -- the file systems, and what is mounted over them -- */

static int make_folders(const char *dir)
{
	static const char *const names[] = { "", "/plain", "/lower", "/upper",
		                             "/work" };
	char name[PROOF_NAME];
	u32 i;

	for (i = 0; i < NR(names); i++) {
		snprintf(name, sizeof(name), "%s/proofs%s", dir, names[i]);
		if (mkdir(name, 0755) && errno != EEXIST)
			return -errno;
	}
	return 0;
}

static int mount_over(const char *dir)
{
	char plain[PROOF_NAME], how[4 * PROOF_NAME];

	snprintf(plain, sizeof(plain), "%s/proofs/plain", dir);
	snprintf(
		how, sizeof(how),
		"lowerdir=%s/proofs/lower,upperdir=%s/proofs/upper,workdir=%s/proofs/work",
		dir, dir, dir);
	mkdir(BIND, 0755);
	mkdir(OVERLAY, 0755);
	if (mount(plain, BIND, NULL, MS_BIND, NULL) ||
	    mount("none", OVERLAY, "overlay", 0, how))
		return -errno;
	return 0;
}

static struct test_fs file_systems[NR(columns)];

static int mount_all(bool more)
{
	char plain[PROOF_NAME];
	int err = 0, i;
	u32 at;

	for (at = 0; at < NR(columns) && !err; at++) {
		struct column *c = &columns[at];

		if (c->more && !more)
			continue;
		for (i = at - 1; i >= 0 && strcmp(columns[i].kind, c->kind); i--)
			;
		c->fs = i < 0 ? &file_systems[at] : columns[i].fs;
		if (i < 0)
			err = fs_mount(c->kind, c->fs);
		if (!err && i < 0)
			err = make_folders(c->fs->dir);
		if (err)
			ktap_diag("%s: %s", c->kind, strerror(-err));
	}
	if (!err)
		err = mount_over(columns[0].fs->dir);
	if (err || !more)
		return err;
	snprintf(plain, sizeof(plain), "%s/proofs/plain", columns[0].fs->dir);
	err = knfsd_start(plain);
	if (!err)
		err = knfsd_mount(3, NFS3);
	if (!err)
		err = knfsd_mount(4, NFS4);
	return err;
}

static void umount_all(bool more)
{
	u32 i;

	if (more) {
		umount(NFS3);
		umount(NFS4);
		knfsd_stop();
	}
	umount(BIND);
	umount(OVERLAY);
	for (i = 0; i < NR(columns); i++) {
		if (file_systems[i].kind)
			fs_umount(&file_systems[i]);
	}
}

/* Whether this kernel has what the word "all" adds. */
static bool has_more(void)
{
	static const char *const kinds[] = { "btrfs", "f2fs", "nfs", "nfs4", "nfsd" };
	u32 i;

	for (i = 0; i < NR(kinds); i++) {
		if (!text_has_word("/proc/filesystems", kinds[i]))
			return false;
	}
	return true;
}

int main(int argc, char **argv)
{
	bool more = argc > 1 && !strcmp(argv[argc - 1], "all");
	u32 nr = 0, i, k;
	int err;

	options_parse(argc - more, argv);
	proof_init();
	if (more && !has_more()) {
		printf("1..0 # SKIP this kernel has not all of them: kernel/run proofs\n");
		return KTAP_SKIPPED;
	}
	for (i = 0; i < NR(rows); i++)
		nr += !opt.only || !strcmp(opt.only, rows[i].path.name);
	ktap_plan(nr);
	err = mount_all(more);
	if (err) {
		errno = -err;
		ktap_bail("a file system");
	}
	for (i = 0; i < NR(rows); i++) {
		if (opt.only && strcmp(opt.only, rows[i].path.name))
			continue;
		for (k = 0; k < NR(columns); k++) {
			if (columns[k].fs && (rows[i].remote || !columns[k].remote))
				run_cell(&rows[i], &columns[k]);
		}
		ktap_result(rows[i].path.name);
	}
	umount_all(more);
	return ktap_end();
}

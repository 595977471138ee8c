/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One path of the kernel that may change a file's bytes or size, tried on a file with a read
 * lease. Does the path break the lease, before it changes anything? Does an inotify watch hear
 * of it? tests/proofs.c has the table.
 */
#ifndef LODIC_TESTS_PROOF_H
#define LODIC_TESTS_PROOF_H

#include "base.h"
#include "uring.h"

#define PROOF_BYTES (16 * PAGE)
#define PROOF_NAME 320

/*
 * A file with a lease, and how it is reached. All but the names belongs to the process that runs
 * before() and act().
 */
struct scene {
	char path[PROOF_NAME];  /* by which the lease is held */
	char via[PROOF_NAME];   /* by which the path under test reaches it */
	char other[PROOF_NAME]; /* another file, beside via, with other bytes */
	const char *device;     /* the disk of the file system; NULL: none */
	int fd;
	char *map;
	struct uring ring;
};

/* What a row of the table does. Both return 0 or -errno and run in a process of their own. */
struct proof_path {
	const char *name;
	int (*before)(struct scene *s); /* before the lease is asked for; or NULL */
	int (*act)(struct scene *s);    /* after */
};

/* proof_open.c: opens, and what works by name. */
int path_open_rdonly(struct scene *s);
int path_open_write(struct scene *s);
int path_open_trunc_rdonly(struct scene *s);
int path_open_trunc_wronly(struct scene *s);
int path_open_handle(struct scene *s);
int path_open_proc(struct scene *s);
int path_open_link(struct scene *s);
int path_truncate_less(struct scene *s);
int path_truncate_more(struct scene *s);
int path_rename(struct scene *s);
int path_rename_over(struct scene *s);
int path_rename_exchange(struct scene *s);
int path_unlink(struct scene *s);
int path_link(struct scene *s);
int path_chmod(struct scene *s);
int path_chown(struct scene *s);
int path_utimes(struct scene *s);
int path_setxattr(struct scene *s);
int path_chattr(struct scene *s);

/* proof_write.c: through a descriptor for writing that the act opens itself, or that is older. */
int before_open(struct scene *s);
int path_write_open(struct scene *s);
int path_write(struct scene *s);
int path_direct(struct scene *s);
int path_aio(struct scene *s);
int path_uring(struct scene *s);
int path_ftruncate(struct scene *s);
int path_punch(struct scene *s);
int path_zero(struct scene *s);
int path_collapse(struct scene *s);
int path_insert(struct scene *s);
int path_copy_range(struct scene *s);
int path_clone(struct scene *s);
int path_clone_source(struct scene *s);
int path_dedupe(struct scene *s);
int path_sendfile(struct scene *s);
int path_splice(struct scene *s);
int path_swap_boot(struct scene *s);

/* proof_hold.c: mappings, pins, devices and swap, which reach the file without a call for it. */
int path_mmap(struct scene *s);
int before_mmap(struct scene *s);
int path_store(struct scene *s);
int before_mmap_rdonly(struct scene *s);
int path_mprotect(struct scene *s);
int path_proc_mem(struct scene *s);
int before_uring_file(struct scene *s);
int path_uring_file(struct scene *s);
int before_in_flight(struct scene *s);
int path_in_flight(struct scene *s);
int before_uring_pinned(struct scene *s);
int path_uring_pinned(struct scene *s);
int path_loop_rdonly(struct scene *s);
int path_loop(struct scene *s);
int before_loop(struct scene *s);
int path_loop_write(struct scene *s);
int path_swapon(struct scene *s);
int before_swapon(struct scene *s);
int path_swapoff(struct scene *s);
int path_raw_disk(struct scene *s);

/* proof_nbd.c: a direct read into the file's pages that is under way. */
int before_direct_read(struct scene *s);
int path_direct_read(struct scene *s);

/* Whether this kernel has inotify. Without it a cell has no word of what a watch heard. */
bool proof_has_watch(void);

/* Before anything else: no thread may take the signals of proof_run(). */
void proof_init(void);

/*
 * Makes the file and the other one, by the names of make and s->other, takes the lease, and runs
 * the path. Returns what came of it in words, which are static:
 *
 *     LEASE EFFECT [modify] [attrib]
 *
 * LEASE is broken, kept, or refused-ERRNO: no lease was given. EFFECT is changed or same, of what
 * the lease's holder reads, or ERRNO, why the path ended without success. modify and attrib are
 * what the watch heard. "none ERRNO" means that before() failed, so there is no such path here.
 * A path that changes the file before the holder has given a broken lease back is "early".
 */
const char *proof_run(struct scene *s, const char *make, const struct proof_path *path);

#endif

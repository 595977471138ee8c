/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What changes the rights of a process, or what it can reach: users, groups, capabilities, name
 * spaces, the root folder, Landlock. See hooks.h, and U23 to U27 in run.h.
 *
 * A call that asks for what the process has already goes on without more. Some programs make such
 * calls all the time.
 */
#define _GNU_SOURCE
#include "preload/hooks.h"

#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/own_calls.h"
#include "preload/run.h"

#ifndef SYS_landlock_restrict_self
#define SYS_landlock_restrict_self 446
#endif

/* The name spaces that say which files there are, and whose. */
#define SPACES_OF_FILES (CLONE_NEWNS | CLONE_NEWUSER)
#define SPACES \
	(SPACES_OF_FILES | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | \
	 CLONE_NEWCGROUP | CLONE_NEWTIME)
/* With these a process opens files whatever their modes say. */
#define CAPABILITIES_OF_FILES (1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH)

/* Functions of one to three numbers or pointers, as words. */
typedef int (*words_fn)(unsigned long a, unsigned long b, unsigned long c);

/* Ids as they are, or as a call wants them; -1: as they are. */
struct ids {
	unsigned int real, effective, saved;
};

EXPORT int capset(void *header, const void *data);

static bool is_as(unsigned int wanted, unsigned int now)
{
	return wanted == (unsigned int)-1 || wanted == now;
}

static bool has(bool user, struct ids wanted)
{
	struct ids now = { 0 };

	if (!run_rights_begin())
		return true; /* no question may be asked, and none matters */
	if (user)
		getresuid(&now.real, &now.effective, &now.saved);
	else
		getresgid(&now.real, &now.effective, &now.saved);
	run_rights_end();
	return is_as(wanted.real, now.real) && is_as(wanted.effective, now.effective) &&
	       is_as(wanted.saved, now.saved);
}

static int left(int result, enum run_leave how)
{
	run_left(result == 0 ? how : RUN_LEAVE_FAILED);
	return result;
}

static int change(enum next which, unsigned long a, unsigned long b, unsigned long c,
                  enum run_leave how)
{
	run_leaves();
	return left(((words_fn)next_of(which))(a, b, c), how);
}

static int change_ids(enum next which, bool same, unsigned int a, unsigned int b,
                      unsigned int c)
{
	if (same)
		return ((words_fn)next_of(which))(a, b, c);
	return change(which, a, b, c, RUN_LEAVE_USER);
}

/* ---- users ---- */

EXPORT int setuid(uid_t user)
{
	run_becomes(user);
	return change_ids(NEXT_SETUID, has(true, (struct ids){ user, user, user }),
	                  user, 0, 0);
}

EXPORT int seteuid(uid_t user)
{
	return change_ids(NEXT_SETEUID,
	                  has(true, (struct ids){ (uid_t)-1, user, (uid_t)-1 }), user,
	                  0, 0);
}

EXPORT int setreuid(uid_t real, uid_t effective)
{
	if (real == effective)
		run_becomes(real);
	return change_ids(NEXT_SETREUID,
	                  has(true, (struct ids){ real, effective, (uid_t)-1 }), real,
	                  effective, 0);
}

EXPORT int setresuid(uid_t real, uid_t effective, uid_t saved)
{
	if (real == effective && real == saved)
		run_becomes(real);
	return change_ids(NEXT_SETRESUID,
	                  has(true, (struct ids){ real, effective, saved }), real,
	                  effective, saved);
}

/* The id is of one thread alone. */
static int change_fs_id(enum next which, unsigned int id)
{
	words_fn next = (words_fn)next_of(which);
	int before, result;

	if (!run_rights_begin())
		return next(id, 0, 0);
	before = next((unsigned int)-1, 0, 0);
	run_rights_end();
	if ((unsigned int)before == id || id == (unsigned int)-1)
		return next(id, 0, 0);
	run_leaves();
	result = next(id, 0, 0);
	left(next((unsigned int)-1, 0, 0) == before, RUN_LEAVE_FOR_GOOD);
	return result;
}

EXPORT int setfsuid(uid_t user)
{
	return change_fs_id(NEXT_SETFSUID, user);
}

/* ---- groups ---- */

EXPORT int setgid(gid_t group)
{
	return change_ids(NEXT_SETGID, has(false, (struct ids){ group, group, group }),
	                  group, 0, 0);
}

EXPORT int setegid(gid_t group)
{
	return change_ids(NEXT_SETEGID,
	                  has(false, (struct ids){ (gid_t)-1, group, (gid_t)-1 }),
	                  group, 0, 0);
}

EXPORT int setregid(gid_t real, gid_t effective)
{
	return change_ids(NEXT_SETREGID,
	                  has(false, (struct ids){ real, effective, (gid_t)-1 }), real,
	                  effective, 0);
}

EXPORT int setresgid(gid_t real, gid_t effective, gid_t saved)
{
	return change_ids(NEXT_SETRESGID,
	                  has(false, (struct ids){ real, effective, saved }), real,
	                  effective, saved);
}

EXPORT int setfsgid(gid_t group)
{
	return change_fs_id(NEXT_SETFSGID, group);
}

EXPORT int setgroups(size_t nr, const gid_t *groups)
{
	return change(NEXT_SETGROUPS, nr, (unsigned long)groups, 0, RUN_LEAVE_USER);
}

EXPORT int initgroups(const char *user, gid_t group)
{
	return change(NEXT_INITGROUPS, (unsigned long)user, group, 0, RUN_LEAVE_USER);
}

/* ---- the rest ---- */

/* The capabilities of files that this thread has or may have. 0 as well where the shim may not
 * ask. */
static unsigned int file_capabilities(void)
{
	struct __user_cap_header_struct head = { .version =
		                                         _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

	if (!run_rights_begin())
		return 0;
	own_call(SYS_capget, &head, data);
	run_rights_end();
	return (data[0].effective | data[0].permitted) & CAPABILITIES_OF_FILES;
}

static int change_capabilities(words_fn next, unsigned long number, unsigned long a,
                               unsigned long b)
{
	unsigned int before = file_capabilities();
	int result;

	run_leaves();
	result = number ? (int)own_call((long)number, a, b) : next(a, b, 0);
	return left(result,
	            before & ~file_capabilities() ? RUN_LEAVE_HIDDEN : RUN_LEAVE_USER);
}

EXPORT int capset(void *header, const void *data)
{
	return change_capabilities((words_fn)next_of(NEXT_CAPSET), 0,
	                           (unsigned long)header, (unsigned long)data);
}

/* After a call for these name spaces; 0 also stands for any. */
static enum run_leave of_spaces(int spaces)
{
	return spaces && !(spaces & SPACES_OF_FILES) ? RUN_LEAVE_USER
	                                             : RUN_LEAVE_FOR_GOOD;
}

EXPORT int unshare(int flags)
{
	if (flags & CLONE_FILES)
		run_stop();
	if (flags & SPACES)
		return change(NEXT_UNSHARE, (unsigned int)flags, 0, 0,
		              of_spaces(flags & SPACES));
	return ((words_fn)next_of(NEXT_UNSHARE))((unsigned int)flags, 0, 0);
}

EXPORT int setns(int fd, int spaces)
{
	return change(NEXT_SETNS, (unsigned int)fd, (unsigned int)spaces, 0,
	              of_spaces(spaces));
}

EXPORT int chroot(const char *path)
{
	return change(NEXT_CHROOT, (unsigned long)path, 0, 0, RUN_LEAVE_FOR_GOOD);
}

/* ---- by number ---- */

/* What a bare system call wants; false: it is none of these, or asks for what there is. */
static bool wants_other_ids(long number, const unsigned long a[6])
{
	const unsigned int x = (unsigned int)a[0], y = (unsigned int)a[1],
			   z = (unsigned int)a[2], as_is = (unsigned int)-1;

	switch (number) {
	case SYS_setuid: return !has(true, (struct ids){ x, x, x });
	case SYS_setreuid: return !has(true, (struct ids){ x, y, as_is });
	case SYS_setresuid: return !has(true, (struct ids){ x, y, z });
	case SYS_setgid: return !has(false, (struct ids){ x, x, x });
	case SYS_setregid: return !has(false, (struct ids){ x, y, as_is });
	case SYS_setresgid: return !has(false, (struct ids){ x, y, z });
	case SYS_setgroups: return true;
	default: return false;
	}
}

/* In glibc since 2.32. */
extern char __libc_single_threaded __attribute__((weak));

/* The call changes the calling thread alone, where libc's functions change all. */
static enum run_leave of_one_thread(void)
{
	return &__libc_single_threaded && __libc_single_threaded ? RUN_LEAVE_USER
	                                                         : RUN_LEAVE_FOR_GOOD;
}

static bool changes_rights(long number, const unsigned long a[6], enum run_leave *ret)
{
	switch (number) {
	case SYS_unshare: *ret = of_spaces((int)a[0] & SPACES); return a[0] & SPACES;
	case SYS_setns: *ret = of_spaces((int)a[1]); return true;
	case SYS_chroot:
	case SYS_pivot_root: *ret = RUN_LEAVE_FOR_GOOD; return true;
	case SYS_landlock_restrict_self: *ret = RUN_LEAVE_HIDDEN; return true;
	default: *ret = of_one_thread(); return wants_other_ids(number, a);
	}
}

bool hooks_rights(long number, const unsigned long a[6], long *ret_result)
{
	enum run_leave how;

	if (number == SYS_setfsuid || number == SYS_setfsgid) {
		*ret_result = change_fs_id(number == SYS_setfsuid ? NEXT_SETFSUID
		                                                  : NEXT_SETFSGID,
		                           (unsigned int)a[0]);
		return true;
	}
	if (number == SYS_capset) {
		*ret_result = change_capabilities(NULL, SYS_capset, a[0], a[1]);
		return true;
	}
	if (!changes_rights(number, a, &how))
		return false;
	if (number == SYS_setuid || (number == SYS_setreuid && a[0] == a[1]) ||
	    (number == SYS_setresuid && a[0] == a[1] && a[0] == a[2]))
		run_becomes((uid_t)a[0]);
	run_leaves();
	*ret_result = own_call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	left((int)*ret_result, how);
	return true;
}

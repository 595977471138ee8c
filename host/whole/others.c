/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See files.h: what programs that know nothing of lodic do to files. */
#include <stdlib.h>
#include <string.h>
#include "host/whole/files.h"
#include "lib/port/inode.h"
#include "lib/port/listen.h"

int program_open(const char *path, u32 mode)
{
	machine_yield();
	return files_open_as(path, mode, true);
}

int program_open_to_write(const char *path)
{
	machine_yield();
	machine_note("opens %s to write", path);
	return files_open_as(path, PORT_MAY_WRITE, true);
}

int program_try_to_write(const char *path)
{
	machine_yield();
	machine_note("tries to open %s to write", path);
	return files_open_as(path, PORT_MAY_WRITE, false);
}

void program_write(int fd, u64 offset, const void *from, u64 bytes)
{
	machine_yield();
	inode_write(fd_file_of(fd)->inode, from, bytes, offset);
	machine_note("writes %llu bytes at %llu", (unsigned long long)bytes,
	             (unsigned long long)offset);
}

void program_cut(int fd, u64 bytes)
{
	machine_yield();
	inode_resize(fd_file_of(fd)->inode, bytes);
	watches_tell(fd_file_of(fd)->inode, PORT_NEWS_BYTES);
	machine_note("cuts the file to %llu bytes", (unsigned long long)bytes);
}

int program_cut_unheard(const char *path, u64 bytes, bool rights)
{
	struct inode *inode;

	machine_yield();
	inode = files_find(path);
	if (!inode)
		return -ENOENT;
	inode_resize(inode, bytes);
	watches_tell(inode, PORT_NEWS_BYTES | (rights ? PORT_NEWS_RIGHTS : 0));
	machine_note("cuts %s to %llu bytes, and breaks no lease", path,
	             (unsigned long long)bytes);
	return 0;
}

int program_remove(const char *path)
{
	machine_yield();
	machine_note("removes %s", path);
	return files_remove(path);
}

int program_rename(const char *from, const char *to)
{
	machine_yield();
	machine_note("renames %s to %s", from, to);
	return files_rename(from, to);
}

int program_set_rights(const char *path, u32 rights)
{
	struct inode *inode = files_find(path);

	if (!inode)
		return -ENOENT;
	if (process_now()->uid != 0 && process_now()->uid != inode->uid)
		return -EPERM;
	inode->rights = rights;
	watches_tell(inode, PORT_NEWS_RIGHTS);
	return 0;
}

static struct inode *program_make(const char *path, enum port_file_kind kind, u32 uid,
                                  u32 rights)
{
	struct inode *inode;
	int err = files_make(path, kind, uid, rights, &inode);

	if (err)
		machine_fail("%s: %s", path, strerror(-err));
	return inode;
}

struct inode *program_make_folder(const char *path, u32 uid, u32 rights)
{
	return program_make(path, PORT_FILE_FOLDER, uid, rights);
}

struct inode *program_make_file(const char *path, u32 uid, u32 rights, u64 bytes)
{
	struct inode *inode = program_make(path, PORT_FILE_REGULAR, uid, rights);

	inode_resize(inode, bytes);
	return inode;
}

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: port/inode.h and port/listen.h. What a file is, and where it lies; the lock. */
#include <string.h>

#include "host/whole/files.h"
#include "lib/port/inode.h"
#include "lib/port/listen.h"

int port_path_of(int fd, char *to, size_t bytes)
{
	int err = machine_call(CALL_PATH_OF);
	struct fd_file *file = fd_file_of(fd);
	const char *name;

	if (err || !file)
		return err ? err : -ENOENT;
	name = files_name(file->inode);
	strncpy(to, name ? name : "/gone (deleted)", bytes - 1);
	to[bytes - 1] = '\0';
	return (int)machine_result(0);
}

/* A mount of each file system, which has its number. */
static struct port_place place_of(const struct fd_file *file)
{
	u32 dev = file ? inode_dev(file->inode) : FILES_DEV;

	return (struct port_place){ dev, dev, dev };
}

int port_place(int fd, struct port_place *ret)
{
	int err = machine_call(CALL_PLACE);

	if (err || !fd_get(fd))
		return err ? err : -EBADF;
	*ret = place_of(fd_file_of(fd));
	return (int)machine_result(0);
}

int port_place_at(const char *path, struct port_place *ret)
{
	int err = machine_call(CALL_PLACE_AT);

	(void)path; /* only local ones are asked for */
	if (err)
		return err;
	*ret = place_of(NULL);
	return (int)machine_result(0);
}

int port_names(int fd, struct port_names *ret)
{
	int err = machine_call(CALL_NAMES);
	struct fd_file *file = fd_file_of(fd);

	if (err || !file)
		return err ? err : -EBADF;
	*ret = (struct port_names){ inode_dev(file->inode), file->inode->ino, true,
		                    file->inode->nr_names };
	return (int)machine_result(0);
}

int port_system(int fd, enum port_system *ret)
{
	int err = machine_call(CALL_SYSTEM);
	struct fd_file *file;

	if (err || !fd_get(fd))
		return err ? err : -EBADF;
	file = fd_file_of(fd);
	*ret = PORT_SYSTEM_EXT;
	if (file && inode_is_far(file->inode)) {
		server_ask_by(file);
		*ret = PORT_SYSTEM_OTHER;
	}
	description_release(machine.running);
	return (int)machine_result(0);
}

bool port_has_verity(int fd)
{
	machine_pass(CALL_HAS_VERITY);
	(void)fd;
	return false;
}

int port_access_list(const char *path)
{
	int err = machine_call(CALL_ACCESS_LIST);

	(void)path;
	return (int)machine_result(err ? err : -ENODATA);
}

bool port_leads_to(const char *path, int fd)
{
	machine_pass(CALL_LEADS_TO);
	return machine_result(fd_file_of(fd) &&
	                      files_find(path) == fd_file_of(fd)->inode);
}

bool port_is_same_file(int a, int b)
{
	machine_pass(CALL_IS_SAME_FILE);
	return machine_result(fd_file_of(a) && fd_file_of(b) &&
	                      fd_file_of(a)->inode == fd_file_of(b)->inode);
}

/* ---- port/listen.h ---- */

int port_set_rights(const char *path, uint32_t rights)
{
	int err = machine_call(CALL_SET_RIGHTS);

	return err ? err : (int)machine_result(program_set_rights(path, rights));
}

int port_set_group(const char *path, uint32_t group)
{
	int err = machine_call(CALL_SET_GROUP);

	if (err)
		return err;
	if (!files_find(path))
		return (int)machine_result(-ENOENT);
	files_find(path)->gid = group;
	return (int)machine_result(0);
}

int port_lock_file(int fd)
{
	int err = machine_call(CALL_LOCK_FILE);
	struct fd_file *file = fd_file_of(fd);

	if (err || !file)
		return err ? err : -EBADF;
	for (struct fd_file *other = file->inode->open; other; other = other->next)
		if (other != file && other->locks)
			return (int)machine_result(-EAGAIN);
	file->locks = true;
	return (int)machine_result(0);
}

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See files.h: names, inodes, descriptions; contract: port.h. */
#include <stdlib.h>
#include <string.h>

#include "host/whole/files.h"
#include "lib/port/inode.h"
#include "lib/port/listen.h"

#define MOST_NAMES 192u
#define PATH_BYTES 160u

static struct {
	struct {
		char path[PATH_BYTES];
		struct inode *inode;
	} names[MOST_NAMES];
	u32 last_ino;
} files;

/* ---- names and inodes ---- */

static int files_place(const char *path)
{
	size_t n = strlen(path);

	while (n > 1 && path[n - 1] == '/')
		n--;
	for (u32 i = 0; i < MOST_NAMES; i++)
		if (files.names[i].inode && strlen(files.names[i].path) == n &&
		    strncmp(files.names[i].path, path, n) == 0)
			return (int)i;
	return -1;
}

struct inode *files_find(const char *path)
{
	int place = files_place(path);

	return place < 0 ? NULL : files.names[place].inode;
}

const char *files_name(const struct inode *inode)
{
	for (u32 i = 0; i < MOST_NAMES; i++)
		if (files.names[i].inode == inode)
			return files.names[i].path;
	return NULL;
}

void inode_keep(struct inode *inode)
{
	inode->nr++;
}

void inode_put(struct inode *inode)
{
	if (--inode->nr > 0)
		return;
	watches_end(inode);
	free(inode->data);
	free(inode);
}

/* Anybody may do anything in the root folder, and before the first turn. */
int files_may(const char *path, u32 mode)
{
	char folder[PATH_BYTES];
	struct inode *inode;
	char *slash;

	strcpy(folder, path);
	slash = strrchr(folder, '/');
	if (!slash || slash == folder)
		return slash ? 0 : -ENOENT;
	*slash = '\0';
	inode = files_find(folder);
	if (!inode || inode->kind != PORT_FILE_FOLDER)
		return -ENOENT;
	return !machine.running || inode_allows(inode, process_now()->uid, mode) ? 0
	                                                                         : -EACCES;
}

static void files_link(const char *path, struct inode *inode)
{
	u32 i = 0;

	while (i < MOST_NAMES && files.names[i].inode)
		i++;
	if (i == MOST_NAMES)
		machine_fail("too many names for the machine");
	strcpy(files.names[i].path, path);
	files.names[i].inode = inode;
	inode->nr_names++;
	inode_keep(inode);
}

static void files_unlink(int place)
{
	struct inode *inode = files.names[place].inode;

	files.names[place].inode = NULL;
	inode->nr_names--;
	watches_tell(inode, PORT_NEWS_RIGHTS);
	inode_put(inode);
}

int files_make(const char *path, enum port_file_kind kind, u32 uid, u32 rights,
               struct inode **ret_inode)
{
	struct inode *inode;
	int err;

	if (strlen(path) >= PATH_BYTES)
		return -ENAMETOOLONG;
	err = files_may(path, files_find(path) ? PORT_MAY_READ : PORT_MAY_WRITE);
	if (err || files_find(path))
		return err ? err : -EEXIST;
	inode = calloc(1, sizeof(*inode));
	inode->ino = ++files.last_ino;
	inode->kind = kind;
	inode->uid = inode->gid = uid;
	inode->rights = rights;
	files_link(path, inode);
	*ret_inode = inode;
	return 0;
}

bool inode_allows(const struct inode *inode, u32 uid, u32 mode)
{
	bool member = machine.running && process_now()->gid == inode->gid;
	u32 shift = inode->uid == uid ? 6 : member ? 3 : 0;
	u32 want = (mode & PORT_MAY_READ ? 4 : 0) | (mode & PORT_MAY_WRITE ? 2 : 0);

	return uid == 0 || ((inode->rights >> shift) & want) == want;
}

void files_begin(void)
{
	for (u32 i = 0; i < MOST_NAMES; i++)
		if (files.names[i].inode) {
			free(files.names[i].inode->data);
			free(files.names[i].inode);
		}
	memset(&files, 0, sizeof(files));
	server_begin();
}

/* ---- descriptions ---- */

static void fd_file_end(struct description *d)
{
	struct fd_file *file = (struct fd_file *)d, **at;

	lease_end(file);
	for (at = &file->inode->open; *at != file; at = &(*at)->next)
		;
	*at = file->next;
	if (d->mode & PORT_MAY_WRITE)
		file->inode->nr_writing--;
	inode_put(file->inode);
}

static const struct kind file_kind = { "file", NULL, fd_file_end };

bool fd_file_is(const struct description *d)
{
	return d->kind == &file_kind;
}

struct fd_file *fd_file_of(int fd)
{
	return fd_of(fd, &file_kind);
}

int files_open(struct inode *inode, u32 mode)
{
	struct fd_file *file = description_new(&file_kind, sizeof(*file));
	int fd;

	file->d.mode = mode;
	file->inode = inode;
	file->next = inode->open;
	inode->open = file;
	inode_keep(inode);
	if (mode & PORT_MAY_WRITE)
		inode->nr_writing++;
	fd = fd_new(process_now(), &file->d);
	if (fd < 0)
		description_put(&file->d);
	return fd;
}

int files_open_as(const char *path, u32 mode, bool waits)
{
	struct inode *inode = files_find(path);

	if (!fd_any(process_now()))
		return -EMFILE;
	if (!inode)
		return -ENOENT;
	if (files_may(path, PORT_MAY_READ) || !inode_allows(inode, process_now()->uid, mode))
		return -EACCES;
	if (inode->kind == PORT_FILE_SOCKET)
		return -ENXIO;
	server_ask(inode); /* a file that has a server keeps its name */
	if (!waits && leases_ask(inode))
		return -EAGAIN;
	if (mode & PORT_MAY_WRITE)
		leases_break(inode);
	return files_open(inode, mode);
}

static int files_open_at(const char *path, u32 mode)
{
	return files_open_as(path, mode, true);
}

/* ---- port.h ---- */

static void inode_look(const struct inode *inode, struct port_file *ret)
{
	*ret = (struct port_file){ .dev = inode_dev(inode), .ino = inode->ino,
		                   .kind = inode->kind, .uid = inode->uid,
		                   .gid = inode->gid, .rights = inode->rights,
		                   .nr_names = inode->nr_names,
		                   .bytes = inode->bytes };
}

static u32 inode_number_of(const struct description *d)
{
	return fd_event_is(d) ? 0 : d->number;
}

static int fd_look(int err, int fd, struct port_file *ret)
{
	struct fd_file *file = fd_file_of(fd);

	/* The shim looks at its own sockets, and no file system answers for those. */
	if (err && (file || !process_now()->images[IMAGE_GUEST]))
		return err;
	if (!fd_get(fd))
		return -EBADF;
	/* Each socket has an inode of its own; all events have one. */
	*ret = (struct port_file){ .kind = PORT_FILE_OTHER, .dev = FILES_DEV_NONE,
		                   .ino = inode_number_of(fd_get(fd)) };
	if (file)
		inode_look(file->inode, ret);
	return (int)machine_result(0);
}

int port_look(int fd, struct port_file *ret)
{
	int err = machine_call(CALL_LOOK);
	struct fd_file *file = fd_file_of(fd);

	if (file && !err)
		server_ask_by(file);
	err = fd_look(err, fd, ret);
	description_release(machine.running);
	return err;
}

int port_look_local(int fd, struct port_file *ret)
{
	return fd_look(machine_call(CALL_LOOK_LOCAL), fd, ret);
}

int port_look_at(const char *path, bool follow, struct port_file *ret)
{
	int err = machine_call(CALL_LOOK_AT);
	struct inode *inode = files_find(path);

	(void)follow;
	machine_note("looks at %s", path);
	if (err)
		return err;
	if (!inode)
		return (int)machine_result(-ENOENT);
	inode_look(inode, ret);
	return (int)machine_result(0);
}

bool port_may_run(const char *path)
{
	machine_pass(CALL_MAY_RUN);
	return files_find(path) != NULL;
}

bool port_is_read_only(const char *folder)
{
	machine_pass(CALL_IS_READ_ONLY);
	(void)folder;
	return false;
}

int port_open(const char *path)
{
	int err = machine_call(CALL_OPEN);

	return err ? err : (int)machine_result(files_open_at(path, PORT_MAY_READ));
}

static int files_create(const char *path, bool also_old)
{
	struct inode *inode;
	int err = -EMFILE;

	if (fd_any(process_now()))
		err = files_make(path, PORT_FILE_REGULAR, process_now()->uid, 0600, &inode);
	if (err && (err != -EEXIST || !also_old))
		return err;
	return files_open_at(path, PORT_MAY_READ | PORT_MAY_WRITE);
}

int port_create(const char *path)
{
	int err = machine_call(CALL_CREATE);

	return err ? err : (int)machine_result(files_create(path, false));
}

int port_open_or_create(const char *path)
{
	int err = machine_call(CALL_OPEN_OR_CREATE);

	return err ? err : (int)machine_result(files_create(path, true));
}

int port_open_to_write(const char *path)
{
	int err = machine_call(CALL_OPEN_TO_WRITE);

	if (err)
		return err;
	return (int)machine_result(files_open_at(path, PORT_MAY_READ | PORT_MAY_WRITE));
}

static int fd_reopen(int err, int fd, u32 mode)
{
	struct fd_file *file = fd_file_of(fd);
	int own;

	if (err)
		return err;
	if (!file)
		return memory_reopen(fd);
	if (!inode_allows(file->inode, process_now()->uid, mode & PORT_MAY_READ))
		return (int)machine_result(-EACCES);
	if (!(mode & PORT_NAMES_ONLY))
		server_ask_by(file);
	own = (int)machine_result(files_open(file->inode, mode));
	description_release(machine.running);
	return own;
}

int port_reopen(int fd)
{
	return fd_reopen(machine_call(CALL_REOPEN), fd, PORT_MAY_READ);
}

int port_reopen_at_once(int fd, unsigned int how)
{
	return fd_reopen(machine_call(CALL_REOPEN_AT_ONCE), fd,
	                 PORT_MAY_READ | (how & PORT_PAST_CACHE ? PORT_DIRECT : 0));
}

int port_reopen_name(int fd)
{
	return fd_reopen(machine_call(CALL_REOPEN_NAME), fd, PORT_NAMES_ONLY);
}

bool port_reads_past_cache(int fd)
{
	machine_pass(CALL_READS_PAST_CACHE);
	return fd_file_of(fd) != NULL;
}

int port_shut(int fd)
{
	int err = machine_call(CALL_SHUT);
	struct description *d;

	if (!fd_get(fd))
		machine_fail("descriptor %d is shut, and was not open", fd);
	d = fd_get(fd);
	description_closes(d, false);
	fd_unused(process_now(), fd);
	process_now()->fds[fd] = NULL; /* in any case */
	machine.running->held = d; /* the number's share of it */
	if (fd_file_is(d) && !(d->mode & PORT_NAMES_ONLY))
		server_ask(((struct fd_file *)d)->inode);
	description_release(machine.running);
	return (int)machine_result(err);
}

u64 inode_read(const struct inode *inode, void *to, u64 bytes, u64 offset)
{
	if (offset >= inode->bytes)
		return 0;
	if (bytes > inode->bytes - offset)
		bytes = inode->bytes - offset;
	memcpy(to, inode->data + offset, bytes);
	return bytes;
}

int64_t port_read(int fd, void *to, size_t bytes, uint64_t offset)
{
	struct fd_file *file;
	int64_t got;
	int err;

	machine.running->reads_by = (u32)fd + 1;
	err = machine_call(CALL_READ);
	file = fd_file_of(fd);
	if (err || !file || !(file->d.mode & PORT_MAY_READ)) {
		machine.running->reads_by = 0;
		return err ? err : -EBADF;
	}
	server_ask_by(file);
	machine.running->reads_by = 0;
	if (bytes > 1 && machine_draws(FAULT_SHORT))
		bytes = 1 + machine_draw((u32)bytes);
	memory_touch(to, bytes);
	got = machine_result((long)inode_read(file->inode, to, bytes, offset));
	description_release(machine.running);
	return got;
}

void inode_resize(struct inode *inode, u64 bytes)
{
	inode->data = realloc(inode->data, bytes + 1);
	if (!inode->data)
		machine_fail("there is no memory for a file");
	if (bytes > inode->bytes)
		memset(inode->data + inode->bytes, 0, bytes - inode->bytes);
	inode->bytes = bytes;
}

void inode_write(struct inode *inode, const void *from, u64 bytes, u64 offset)
{
	if (offset + bytes > inode->bytes)
		inode_resize(inode, offset + bytes);
	memcpy(inode->data + offset, from, bytes);
	watches_tell(inode, PORT_NEWS_BYTES);
}

int64_t port_write(int fd, const void *from, size_t bytes, uint64_t offset)
{
	int err = machine_call(CALL_WRITE);
	struct fd_file *file = fd_file_of(fd);

	if (err)
		return err;
	if (!file)
		return machine_result(memory_write(fd, from, bytes, offset));
	if (!(file->d.mode & PORT_MAY_WRITE))
		return machine_result(-EBADF);
	inode_write(file->inode, from, bytes, offset);
	return machine_result((long)bytes);
}

int port_truncate(int fd)
{
	int err = machine_call(CALL_TRUNCATE);
	struct fd_file *file = fd_file_of(fd);

	if (err || !file)
		return err ? err : -EBADF;
	if (!(file->d.mode & PORT_MAY_WRITE))
		return (int)machine_result(-EINVAL);
	inode_resize(file->inode, 0);
	watches_tell(file->inode, PORT_NEWS_BYTES);
	return (int)machine_result(0);
}

int files_remove(const char *path)
{
	int place = files_place(path), err = files_may(path, PORT_MAY_WRITE);

	if (place < 0 || err)
		return place < 0 ? -ENOENT : err;
	files_unlink(place);
	return 0;
}

int port_remove(const char *path)
{
	int err = machine_call(CALL_REMOVE);

	return err ? err : (int)machine_result(files_remove(path));
}

int files_rename(const char *from, const char *to)
{
	int place = files_place(from), there = files_place(to);
	int err = files_may(from, PORT_MAY_WRITE);

	if (!err)
		err = files_may(to, PORT_MAY_WRITE);
	if (place < 0 || err)
		return place < 0 ? -ENOENT : err;
	if (there >= 0)
		files_unlink(there);
	strcpy(files.names[place].path, to);
	watches_tell(files.names[place].inode, NEWS_MOVED);
	return 0;
}

int port_rename(const char *from, const char *to)
{
	int err = machine_call(CALL_RENAME);

	return err ? err : (int)machine_result(files_rename(from, to));
}

int port_make_folder(const char *path)
{
	int err = machine_call(CALL_MAKE_FOLDER);
	struct inode *inode;

	if (!err)
		err = files_make(path, PORT_FILE_FOLDER, process_now()->uid, 0700,
		                 &inode);
	return (int)machine_result(err);
}

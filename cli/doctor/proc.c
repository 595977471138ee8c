/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What /proc says of a process. Each look opens and closes its files, and stops nobody. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/doctor/proc.h"
#include "cli/doctor/run.h"

#define NS_PER_S UINT64_C(1000000000)
#define LINE_BYTES (PATH_MAX + 128)

static FILE *proc_open(int pid, const char *name)
{
	char path[96];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	return fopen(path, "re");
}

void doctor_proc_io(int pid, struct doctor_io *ret)
{
	FILE *f = proc_open(pid, "io");
	struct doctor_io io = { 0 };
	int found = 0;
	char line[128];

	while (f && fgets(line, sizeof(line), f)) {
		found += sscanf(line, "rchar: %" SCNu64, &io.read_bytes) == 1;
		found += sscanf(line, "syscr: %" SCNu64, &io.reads) == 1;
		found += sscanf(line, "read_bytes: %" SCNu64, &io.device_bytes) == 1;
	}
	if (f)
		fclose(f);
	io.known = found == 3;
	if (io.known)
		*ret = io;
}

int doctor_proc_cpu(int pid, uint64_t *ret_user_ns, uint64_t *ret_system_ns)
{
	const uint64_t tick_ns = NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK);
	FILE *f = proc_open(pid, "stat");
	uint64_t user, system;
	char line[1024];
	const char *p = NULL;

	if (!f)
		return -errno;
	/* The name in brackets may hold anything. */
	if (fgets(line, sizeof(line), f))
		p = strrchr(line, ')');
	fclose(f);
	if (!p ||
	    sscanf(p + 1,
	           " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64,
	           &user, &system) != 2)
		return -EIO;
	*ret_user_ns = user * tick_ns;
	*ret_system_ns = system * tick_ns;
	return 0;
}

/* ---- mappings ---- */

/* A mapping, as one reads smaps from its first line on. */
struct mapping {
	char path[PATH_MAX];
	bool is_file, runs; /* it may be executed */
	uint64_t bytes, resident_bytes;
};

/* The files of which some part may be executed: programs and libraries. */
struct code {
	char (*paths)[SEEN_PATH_BYTES];
	unsigned int nr;
};

static bool code_has(const struct code *c, const char *path)
{
	for (unsigned int i = 0; i < c->nr; i++)
		if (strncmp(c->paths[i], path, SEEN_PATH_BYTES - 1) == 0)
			return true;
	return false;
}

static void code_add(struct code *c, const char *path)
{
	void *more;

	if (code_has(c, path))
		return;
	more = realloc(c->paths, (c->nr + 1) * sizeof(*c->paths));
	if (!more)
		return;
	c->paths = more;
	snprintf(c->paths[c->nr++], SEEN_PATH_BYTES, "%.*s", (int)SEEN_PATH_BYTES - 1,
	         path);
}

/* What the kernel names like a file, and is memory. */
static bool is_memory(const char *path)
{
	return strncmp(path, "/dev/zero", 9) == 0 || strncmp(path, "/memfd:", 7) == 0 ||
	       strncmp(path, "/SYSV", 5) == 0;
}

/* Is this the first line of a mapping? */
static bool mapping_begins(const char *line, struct mapping *ret)
{
	uint64_t from, to, ino;
	char rights[8];
	int at = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %*x %*s %" SCNu64 " %n", &from,
	           &to, rights, &ino, &at) < 4 ||
	    at == 0)
		return false;
	*ret = (struct mapping){ .bytes = to - from, .runs = strchr(rights, 'x') };
	snprintf(ret->path, sizeof(ret->path), "%.*s", (int)strcspn(line + at, "\n"),
	         line + at);
	ret->is_file = ret->path[0] == '/' && ino != 0 && !is_memory(ret->path);
	return true;
}

/* A whole mapping was read. Its place from the top is not known before the last one. */
static void mapping_ends(struct doctor_maps *maps, const struct code *code,
                         const char *ours, const struct mapping *m)
{
	struct doctor_mapped *to;

	if (*ours && strncmp(m->path, ours, strlen(ours)) == 0) {
		maps->nr--; /* the shim's counts */
		maps->ours = true;
		return;
	}
	if (!m->is_file || code_has(code, m->path))
		return;
	maps->bytes += m->bytes;
	maps->resident_bytes += m->resident_bytes;
	/* They come from the bottom: the last ones are nearest to the top. */
	if (maps->nr_of_files >= DOCTOR_MAPPED)
		memmove(maps->files, maps->files + 1,
		        (DOCTOR_MAPPED - 1) * sizeof(*maps->files));
	to = &maps->files[maps->nr_of_files < DOCTOR_MAPPED ? maps->nr_of_files
	                                                    : DOCTOR_MAPPED - 1];
	*to = (struct doctor_mapped){ .place = maps->nr,
		                      .bytes = m->bytes,
		                      .resident_bytes = m->resident_bytes };
	snprintf(to->path, sizeof(to->path), "%.*s", (int)sizeof(to->path) - 1,
	         m->path);
	maps->nr_of_files++;
}

static bool has_ring(int pid)
{
	char path[64], to[64];
	const struct dirent *e;
	bool found = false;
	ssize_t n;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	d = opendir(path);
	while (d && !found && (e = readdir(d))) {
		n = readlinkat(dirfd(d), e->d_name, to, sizeof(to) - 1);
		to[n > 0 ? n : 0] = '\0';
		found = strcmp(to, "anon_inode:[io_uring]") == 0;
	}
	if (d)
		closedir(d);
	return found;
}

static void read_maps(FILE *f, const struct code *code, const char *ours,
                      struct doctor_maps *maps)
{
	struct mapping m, next;
	char line[LINE_BYTES];
	uint64_t kib;

	while (fgets(line, sizeof(line), f)) {
		if (mapping_begins(line, &next)) {
			if (maps->nr)
				mapping_ends(maps, code, ours, &m);
			m = next;
			maps->nr++;
		} else if (maps->nr && sscanf(line, "Rss: %" SCNu64, &kib) == 1) {
			m.resident_bytes = kib * 1024;
		}
	}
	if (maps->nr)
		mapping_ends(maps, code, ours, &m);
}

void doctor_proc_maps(int pid, const char *ours, struct doctor_maps *ret)
{
	struct doctor_maps maps = { .pid = pid };
	struct code code = { 0 };
	struct mapping m;
	char line[LINE_BYTES];
	FILE *f = proc_open(pid, "maps");

	while (f && fgets(line, sizeof(line), f))
		if (mapping_begins(line, &m) && m.is_file && m.runs)
			code_add(&code, m.path);
	if (f)
		fclose(f);
	f = proc_open(pid, "smaps");
	if (f) {
		read_maps(f, &code, ours, &maps);
		fclose(f);
	}
	free(code.paths);
	if (maps.nr == 0)
		return;
	maps.rings = has_ring(pid);
	for (unsigned int i = 0; i < DOCTOR_MAPPED && i < maps.nr_of_files; i++)
		maps.files[i].place = maps.nr - maps.files[i].place + 1;
	*ret = maps;
}

/* ---- descriptors ---- */

/* Its flags and offset. */
static bool fd_info(int pid, const char *name, unsigned int *ret_flags,
                    uint64_t *ret_offset)
{
	char path[64], line[128];
	int found = 0;
	FILE *f;

	snprintf(path, sizeof(path), "fdinfo/%.20s", name);
	f = proc_open(pid, path);
	while (f && found < 2 && fgets(line, sizeof(line), f)) {
		found += sscanf(line, "pos: %" SCNu64, ret_offset) == 1;
		found += sscanf(line, "flags: %o", ret_flags) == 1;
	}
	if (f)
		fclose(f);
	return found == 2;
}

/* How much of it is read, nobody knows. */
static void note_file(struct doctor *d, int folder, const char *name,
                      const struct stat *st)
{
	char path[PATH_MAX];
	ssize_t n = readlinkat(folder, name, path, sizeof(path) - 1);
	struct doctor_file *f;

	path[n > 0 ? n : 0] = '\0';
	f = doctor_file_of(d, st->st_dev, st->st_ino, path);
	if (!f || f->mtime_ns)
		return;
	f->size = (uint64_t)st->st_size;
	f->blocks = f->size / SEEN_BLOCK_BYTES;
	f->mtime_ns = doctor_mtime_ns(st);
}

static void look_at_fd(struct doctor *d, struct doctor_fds *fds, int folder,
                       const char *name)
{
	unsigned int flags = 0, fd = (unsigned int)strtoul(name, NULL, 10);
	uint64_t offset = 0;
	struct stat st;

	if (fd >= DOCTOR_FDS || fstatat(folder, name, &st, 0) != 0 ||
	    !fd_info(d->pid, name, &flags, &offset) ||
	    (flags & O_ACCMODE) == O_WRONLY || flags & O_PATH)
		return;
	if (!S_ISREG(st.st_mode)) {
		/* A terminal or a folder brings few bytes; these may bring many. */
		d->nr_others += S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode) ||
		                S_ISBLK(st.st_mode);
		return;
	}
	if ((flags & O_ACCMODE) == O_RDONLY && !(flags & O_DIRECT)) {
		d->nr_read_only++;
		note_file(d, folder, name, &st);
	}
	if (fds->ino[fd] == st.st_ino && offset > fds->offset[fd])
		d->moved_bytes += offset - fds->offset[fd];
	fds->ino[fd] = st.st_ino;
	fds->offset[fd] = offset;
}

void doctor_proc_fds(struct doctor *d, struct doctor_fds *fds)
{
	const struct dirent *e;
	char path[64];
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%d/fd", d->pid);
	folder = opendir(path);
	d->nr_others = d->nr_read_only = 0;
	while (folder && (e = readdir(folder)))
		if (e->d_name[0] != '.')
			look_at_fd(d, fds, dirfd(folder), e->d_name);
	if (folder)
		closedir(folder);
}

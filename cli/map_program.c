/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Can a library be preloaded into this program? The loader does that. So the program must
 * ask for a loader, and for the one of our own libraries. The kernel must not tell the
 * loader to distrust its caller. Contract: cli/map_program.h.
 */
#define _GNU_SOURCE
#include "cli/map_program.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

/* The kernel follows this many scripts before it gives up. */
#define MAX_SCRIPTS 5
#define MAX_HEADERS 256
#define LINE_BYTES 256 /* what the kernel reads of a script */

static bool is_program(const char *path, int *ret_error)
{
	struct stat st;

	if (stat(path, &st) != 0)
		return false;
	*ret_error = -EACCES;
	return S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

int map_program_find(const char *name, char *ret_path, size_t size)
{
	const char *places = getenv("PATH");
	char standard[MAP_PROGRAM_PATH_BYTES] = "";
	int error = -ENOENT;

	if (strchr(name, '/')) {
		snprintf(ret_path, size, "%s", name);
		return is_program(name, &error) ? 0 : error;
	}
	if (!places) {
		confstr(_CS_PATH, standard, sizeof(standard));
		places = standard;
	}
	while (*name) {
		const char *end = strchrnul(places, ':');
		int n = (int)(end - places);

		/* An empty place means the current folder. */
		if (snprintf(ret_path, size, "%.*s%s%s", n, places, n ? "/" : "./",
		             name) < (int)size &&
		    is_program(ret_path, &error))
			return 0;
		if (*end == '\0')
			break;
		places = end + 1;
	}
	return error;
}

/* Gives the loader that the ELF file asks for. -ENOENT: it asks for none. -ENOEXEC: it is
 * not an ELF file of this machine's kind. -EIO: it cannot be read. */
static int loader_of(int fd, char *ret, size_t size)
{
	Elf64_Ehdr head;
	Elf64_Phdr part;

	if (pread(fd, &head, sizeof(head), 0) != sizeof(head))
		return -EIO;
	if (head.e_ident[EI_CLASS] != ELFCLASS64 ||
	    head.e_phentsize != sizeof(Elf64_Phdr) || head.e_phnum > MAX_HEADERS)
		return -ENOEXEC;
	for (unsigned int i = 0; i < head.e_phnum; i++) {
		if (pread(fd, &part, sizeof(part),
		          (off_t)(head.e_phoff + i * sizeof(part))) != sizeof(part))
			return -EIO;
		if (part.p_type != PT_INTERP)
			continue;
		if (part.p_filesz == 0 || part.p_filesz > size ||
		    pread(fd, ret, part.p_filesz, (off_t)part.p_offset) !=
		            (ssize_t)part.p_filesz)
			return -EIO;
		ret[part.p_filesz - 1] = '\0';
		return 0;
	}
	return -ENOENT;
}

static const char *elf_refuses(int fd)
{
	static char why[2 * MAP_PROGRAM_PATH_BYTES + 64];
	char loader[MAP_PROGRAM_PATH_BYTES], ours[MAP_PROGRAM_PATH_BYTES];
	int own = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int own_error = own < 0 ? -EIO : loader_of(own, ours, sizeof(ours));

	if (own >= 0)
		close(own);
	switch (loader_of(fd, loader, sizeof(loader))) {
	case -ENOENT:
		return "is linked statically, so no loader runs that could preload a library";
	case -ENOEXEC: return "is not a 64-bit program, so it cannot load this library";
	case -EIO: return NULL;
	default: break;
	}
	if (own_error == 0 &&
	    strcmp(strrchr(loader, '/') ? strrchr(loader, '/') : loader,
	           strrchr(ours, '/') ? strrchr(ours, '/') : ours) != 0) {
		snprintf(why, sizeof(why),
		         "has the loader %s, not %s, so it cannot load this library",
		         loader, ours);
		return why;
	}
	return NULL;
}

/* In secure mode the loader preloads nothing by path. Will it run in that mode? */
static const char *privilege_refuses(int fd)
{
	struct statvfs fs;
	struct stat st;

	if (fstat(fd, &st) != 0 || fstatvfs(fd, &fs) != 0 || (fs.f_flag & ST_NOSUID))
		return NULL;
	if (((st.st_mode & S_ISUID) && st.st_uid != getuid()) ||
	    ((st.st_mode & S_ISGID) && (st.st_mode & S_IXGRP) && st.st_gid != getgid()))
		return "is setuid or setgid, so its loader preloads nothing";
	if (getuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0)
		return "has file capabilities, so its loader preloads nothing";
	return NULL;
}

/* Cuts the path behind "#!" out of line. NULL: there is none. */
static char *interpreter(char *line)
{
	char *path = line + 2 + strspn(line + 2, " \t");

	path[strcspn(path, " \t\n")] = '\0';
	return *path ? path : NULL;
}

const char *map_program_refuses(const char *path)
{
	char line[LINE_BYTES + 1];
	char *next = NULL;
	const char *why = NULL;

	for (int depth = 0; depth < MAX_SCRIPTS; depth++) {
		int fd = open(next ? next : path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
		ssize_t n;

		if (fd < 0)
			return NULL;
		n = pread(fd, line, LINE_BYTES, 0);
		line[n > 0 ? n : 0] = '\0';
		if (n >= SELFMAG && memcmp(line, ELFMAG, SELFMAG) == 0) {
			why = privilege_refuses(fd);
			if (!why)
				why = elf_refuses(fd);
		}
		close(fd);
		next = strncmp(line, "#!", 2) == 0 ? interpreter(line) : NULL;
		if (!next)
			return why;
	}
	return NULL;
}

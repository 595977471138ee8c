/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Can a library be preloaded into this program? The loader does that, so there must be
 * one, it must be the loader that our own libraries are for, and it must not have been
 * told to distrust its caller. Contract: cli/map_program.h.
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

/* The kernel follows as many scripts before it gives up. */
#define MAX_SCRIPTS 5
#define MAX_HEADERS 256
#define LINE_BYTES 256 /* of a script that the kernel looks at */

static bool is_program(const char *path, int *ret_error)
{
	struct stat st;

	if (stat(path, &st) != 0)
		return false;
	*ret_error = -EACCES;
	return S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

int program_find(const char *name, char *ret_path, size_t size)
{
	const char *places = getenv("PATH");
	char standard[PROGRAM_PATH_BYTES] = "";
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

		/* An empty place is the folder we are in. */
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

/* The loader that the ELF file asks for, into ret. 0; -ENOENT: none; -ENOEXEC: no ELF
 * file of this machine's kind; -EIO: cannot be read. */
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
	static char why[2 * PROGRAM_PATH_BYTES + 64];
	char loader[PROGRAM_PATH_BYTES], ours[PROGRAM_PATH_BYTES];
	int own = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int own_error = own < 0 ? -EIO : loader_of(own, ours, sizeof(ours));

	if (own >= 0)
		close(own);
	switch (loader_of(fd, loader, sizeof(loader))) {
	case -ENOENT:
		return "is linked statically: no loader runs that could preload a library";
	case -ENOEXEC: return "is not a 64-bit program: this library cannot be in it";
	case -EIO: return NULL;
	default: break;
	}
	if (own_error == 0 &&
	    strcmp(strrchr(loader, '/') ? strrchr(loader, '/') : loader,
	           strrchr(ours, '/') ? strrchr(ours, '/') : ours) != 0) {
		snprintf(why, sizeof(why),
		         "has the loader %s, not %s: this library cannot be in it",
		         loader, ours);
		return why;
	}
	return NULL;
}

/* Will the loader run in secure mode, where it preloads nothing by path? */
static const char *privilege_refuses(int fd)
{
	struct statvfs fs;
	struct stat st;

	if (fstat(fd, &st) != 0 || fstatvfs(fd, &fs) != 0 || (fs.f_flag & ST_NOSUID))
		return NULL;
	if (((st.st_mode & S_ISUID) && st.st_uid != getuid()) ||
	    ((st.st_mode & S_ISGID) && (st.st_mode & S_IXGRP) && st.st_gid != getgid()))
		return "is setuid or setgid: its loader preloads nothing";
	if (getuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0)
		return "has file capabilities: its loader preloads nothing";
	return NULL;
}

/* The path behind "#!", cut out of line. NULL: none. */
static char *interpreter(char *line)
{
	char *path = line + 2 + strspn(line + 2, " \t");

	path[strcspn(path, " \t\n")] = '\0';
	return *path ? path : NULL;
}

const char *program_refuses(const char *path)
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

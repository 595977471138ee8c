/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Can a library be preloaded into this program? The loader does that. So the program must
 * ask for a loader, and for the one of our own libraries. The kernel must not tell the
 * loader to distrust its caller. A program in Go takes the library and goes round it.
 * Contract: cli/map_program.h.
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

#include "preload/go.h"

/* The kernel follows this many scripts before it gives up. */
#define MAX_SCRIPTS 5
/* The kernel runs no program whose headers take more. */
#define HEADERS_BYTES 65536
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

/* Reads the head of the ELF file. -ENOEXEC: it is not a 64-bit one. -EIO: it cannot be read, or the
 * kernel will refuse it. */
static int head_of(int fd, Elf64_Ehdr *ret)
{
	if (pread(fd, ret, sizeof(*ret), 0) != sizeof(*ret))
		return -EIO;
	if (ret->e_ident[EI_CLASS] != ELFCLASS64)
		return -ENOEXEC;
	if (ret->e_phentsize != sizeof(Elf64_Phdr) ||
	    ret->e_phnum * sizeof(Elf64_Phdr) > HEADERS_BYTES)
		return -EIO;
	return 0;
}

static int part_of(int fd, const Elf64_Ehdr *head, unsigned int i, Elf64_Phdr *ret)
{
	off_t at = (off_t)(head->e_phoff + i * sizeof(*ret));

	return pread(fd, ret, sizeof(*ret), at) == sizeof(*ret) ? 0 : -EIO;
}

/* Gives the loader that the ELF file asks for. -ENOENT: it asks for none. -ENOEXEC, -EIO: as
 * head_of(). */
static int loader_of(int fd, char *ret, size_t size)
{
	Elf64_Ehdr head;
	Elf64_Phdr part;
	int error = head_of(fd, &head);

	for (unsigned int i = 0; !error && i < head.e_phnum; i++) {
		error = part_of(fd, &head, i, &part);
		if (error || part.p_type != PT_INTERP)
			continue;
		if (part.p_filesz == 0 || part.p_filesz > size ||
		    pread(fd, ret, part.p_filesz, (off_t)part.p_offset) !=
		            (ssize_t)part.p_filesz)
			return -EIO;
		ret[part.p_filesz - 1] = '\0';
		return 0;
	}
	return error ? error : -ENOENT;
}

/* Go's linker leaves a note in each program, or at least a mark: preload/go.c. */
static bool part_is_go(int fd, const Elf64_Phdr *part)
{
	static _Alignas(GO_MARK_ALIGN) char bytes[GO_MARK_WITHIN];
	const size_t off = part->p_vaddr % GO_MARK_ALIGN;
	ssize_t n;

	if (part->p_type != PT_NOTE && (part->p_type != PT_LOAD || !(part->p_flags & PF_W)))
		return false;
	n = pread(fd, bytes + off,
	          part->p_filesz < sizeof(bytes) - off ? part->p_filesz
	                                               : sizeof(bytes) - off,
	          (off_t)part->p_offset);
	if (n <= 0)
		return false;
	if (part->p_type == PT_NOTE)
		return go_has_note(bytes + off, (uint64_t)n, part->p_align);
	return go_has_mark(bytes + off, (uint64_t)n);
}

static bool is_go(int fd)
{
	Elf64_Ehdr head;
	Elf64_Phdr part;
	bool found = false;

	if (head_of(fd, &head) != 0)
		return false;
	for (unsigned int i = 0; i < head.e_phnum && !found; i++)
		found = part_of(fd, &head, i, &part) == 0 && part_is_go(fd, &part);
	return found;
}

static enum map_program elf_judge(int fd, const char **ret_why)
{
	static char why[2 * MAP_PROGRAM_PATH_BYTES + 64];
	char loader[MAP_PROGRAM_PATH_BYTES], ours[MAP_PROGRAM_PATH_BYTES];
	int own = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int own_error = own < 0 ? -EIO : loader_of(own, ours, sizeof(ours));

	if (own >= 0)
		close(own);
	switch (loader_of(fd, loader, sizeof(loader))) {
	case -ENOENT:
		*ret_why =
			"is linked statically, so no loader runs that could preload a library";
		return MAP_PROGRAM_PASSES;
	case -ENOEXEC:
		*ret_why = "is not a 64-bit program, so it cannot load this library";
		return MAP_PROGRAM_LOSES;
	case -EIO: return MAP_PROGRAM_TAKES;
	default: break;
	}
	if (own_error == 0 &&
	    strcmp(strrchr(loader, '/') ? strrchr(loader, '/') : loader,
	           strrchr(ours, '/') ? strrchr(ours, '/') : ours) != 0) {
		snprintf(why, sizeof(why),
		         "has the loader %s, not %s, so it cannot load this library",
		         loader, ours);
		*ret_why = why;
		return MAP_PROGRAM_LOSES;
	}
	if (!is_go(fd))
		return MAP_PROGRAM_TAKES;
	*ret_why = "is written in Go, which calls the kernel past libc";
	return MAP_PROGRAM_GO;
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

enum map_program map_program_judge(const char *path, const char **ret_why)
{
	enum map_program is = MAP_PROGRAM_TAKES;
	char line[LINE_BYTES + 1];
	char *next = NULL;

	for (int depth = 0; depth < MAX_SCRIPTS; depth++) {
		int fd = open(next ? next : path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
		ssize_t n;

		if (fd < 0)
			return MAP_PROGRAM_TAKES;
		n = pread(fd, line, LINE_BYTES, 0);
		line[n > 0 ? n : 0] = '\0';
		if (n >= SELFMAG && memcmp(line, ELFMAG, SELFMAG) == 0) {
			*ret_why = privilege_refuses(fd);
			is = *ret_why ? MAP_PROGRAM_LOSES : elf_judge(fd, ret_why);
		}
		close(fd);
		next = strncmp(line, "#!", 2) == 0 ? interpreter(line) : NULL;
		if (!next)
			return is;
	}
	return MAP_PROGRAM_TAKES;
}

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See loader.h. */
#define _GNU_SOURCE
#include "preload/loader.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "preload/own_calls.h"
#include "preload/shim.h"

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OWN_MACHINE EM_AARCH64
#else
#error "this machine has no name here"
#endif

/* Of a program: its headers, and where they end mostly its loader's name. */
#define HEAD_BYTES 1024u
#define NAME_BYTES 256u /* of a loader; and what the kernel reads of a script */
#define SCRIPTS_MOST 5

static int loader_note_own(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size, (void)arg;
	for (u32 i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_INTERP)
			shim.exec.own_loader =
				(const char *)(info->dlpi_addr +
			                       info->dlpi_phdr[i].p_vaddr);
	return 1; /* the first is the program */
}

__attribute__((constructor)) static void loader_start(void)
{
	dl_iterate_phdr(loader_note_own, NULL);
}

/* Is the loader at this path another file than ours? */
static bool loader_differs(const char *path)
{
	struct stat theirs, ours;

	return strcmp(path, shim.exec.own_loader) != 0 && stat(path, &theirs) == 0 &&
	       stat(shim.exec.own_loader, &ours) == 0 &&
	       (theirs.st_ino != ours.st_ino || theirs.st_dev != ours.st_dev);
}

/* Reads bytes at offset, of which head has the first n. */
static bool read_at(int fd, const char *head, u64 n, void *to, u64 bytes, u64 offset)
{
	if (offset <= n && n - offset >= bytes) {
		memcpy(to, head + offset, bytes);
		return true;
	}
	return own_call(SYS_pread64, fd, to, bytes, offset) == (long)bytes;
}

static bool elf_is_foreign(int fd, const char *head, u64 n)
{
	char name[NAME_BYTES];
	ElfW(Ehdr) e;
	ElfW(Phdr) part;

	if (n < sizeof(e))
		return false;
	memcpy(&e, head, sizeof(e));
	if (e.e_ident[EI_CLASS] != ELFCLASS64 || e.e_machine != OWN_MACHINE)
		return true;
	for (u32 i = 0; i < e.e_phnum; i++) {
		if (!read_at(fd, head, n, &part, sizeof(part),
		             e.e_phoff + i * sizeof(part)))
			return false;
		if (part.p_type != PT_INTERP)
			continue;
		if (part.p_filesz == 0 || part.p_filesz > sizeof(name) ||
		    !read_at(fd, head, n, name, part.p_filesz, part.p_offset))
			return false;
		name[part.p_filesz - 1] = '\0';
		return loader_differs(name);
	}
	return false; /* linked statically */
}

/* Cuts the path behind "#!" out of a script's head. NULL: it is none. */
static char *interpreter(char *head)
{
	char *path;

	if (strncmp(head, "#!", 2) != 0)
		return NULL;
	path = head + 2 + strspn(head + 2, " \t");
	path[strcspn(path, " \t\n")] = '\0';
	return *path ? path : NULL;
}

/* A fifo would make the look wait, and some device notices that it was opened. -1: not one to look
 * at. */
static int look_open(const struct loader_file *file)
{
	struct stat st;

	if ((file->path ? fstatat(file->at, file->path, &st, 0)
	                : fstat(file->at, &st)) != 0 ||
	    !S_ISREG(st.st_mode))
		return -1;
	if (!file->path)
		return file->at;
	return (int)own_call(SYS_openat, file->at, file->path,
	                     O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
}

bool loader_is_foreign(struct loader_file file)
{
	char head[HEAD_BYTES + 1];
	bool foreign = false;

	for (int scripts = 0; shim.exec.own_loader && scripts < SCRIPTS_MOST;
	     scripts++) {
		int fd = look_open(&file);
		long n = fd < 0 ? -1 : own_call(SYS_pread64, fd, head, HEAD_BYTES, 0L);

		head[n > 0 ? n : 0] = '\0';
		if (n >= SELFMAG && memcmp(head, ELFMAG, SELFMAG) == 0)
			foreign = elf_is_foreign(fd, head, (u64)n);
		if (fd >= 0 && file.path)
			own_call(SYS_close, fd);
		file.path = n > 0 ? interpreter(head) : NULL;
		file.at = AT_FDCWD;
		if (!file.path)
			break;
	}
	return foreign;
}

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * By what a program's file or memory shows that Go's linker made it. Go makes its system calls by
 * instructions of its own, and so goes round libc and the shim.
 *
 * The linker leaves a note with a build's id in each program and library. A build without an id
 * (-buildid=) has no such note. A program then still has the mark that `go version` reads; it is
 * found if it lies near the start of the data.
 */
#ifndef LODIC_PRELOAD_GO_H
#define LODIC_PRELOAD_GO_H

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define GO_NOTE_NAME "Go\0" /* with its end, 4 bytes */
#define GO_NOTE_BUILD_ID 4u
/* The mark is aligned, and lies among the first bytes that can be written. */
#define GO_MARK "\xff Go buildinf:"
#define GO_MARK_ALIGN 16u
#define GO_MARK_WITHIN 65536u

/* Is Go's among these notes? One stands behind the other: a head, its owner's name, the rest. align
 * is what the program's header says. */
static inline bool go_has_note(const void *notes, uint64_t bytes, uint64_t align)
{
	const uint64_t unit = align == 8 ? 8 : 4;
	const char *at = notes;

	while (bytes >= sizeof(Elf64_Nhdr)) {
		const Elf64_Nhdr *note = (const Elf64_Nhdr *)at;
		uint64_t name = sizeof(*note), all;

		all = (name + note->n_namesz + unit - 1) / unit * unit;
		all += ((uint64_t)note->n_descsz + unit - 1) / unit * unit;
		if (all > bytes)
			return false;
		if (note->n_namesz == sizeof(GO_NOTE_NAME) &&
		    note->n_type == GO_NOTE_BUILD_ID &&
		    memcmp(at + name, GO_NOTE_NAME, sizeof(GO_NOTE_NAME)) == 0)
			return true;
		at += all;
		bytes -= all;
	}
	return false;
}

/* Is the mark in what begins there, at an address that is aligned? */
static inline bool go_has_mark(const void *at, uint64_t bytes)
{
	const uint64_t room = bytes < GO_MARK_WITHIN ? bytes : GO_MARK_WITHIN;
	const char *from = at;

	from += -(uintptr_t)at % GO_MARK_ALIGN;
	for (; (uint64_t)(from - (const char *)at) + sizeof(GO_MARK) <= room;
	     from += GO_MARK_ALIGN)
		if (memcmp(from, GO_MARK, sizeof(GO_MARK) - 1) == 0)
			return true;
	return false;
}

/* go.c: is there code in Go in this process? Only a constructor may call it. */
bool go_in_process(void);

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See go.h. */
#define _GNU_SOURCE
#include "preload/go.h"

#include <link.h>

#include "host/host.h"

static int object_is_go(struct dl_phdr_info *info, size_t size, void *arg)
{
	bool *found = arg;

	(void)size;
	for (u32 i = 0; i < info->dlpi_phnum && !*found; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		const u8 *at = (const u8 *)(info->dlpi_addr + part->p_vaddr);

		if (part->p_type == PT_NOTE)
			*found = go_has_note(at, part->p_filesz, part->p_align);
		else if (part->p_type == PT_LOAD && part->p_flags & PF_W &&
		         !info->dlpi_name[0]) /* the program */
			*found = go_has_mark(at, part->p_filesz);
	}
	return *found;
}

bool go_in_process(void)
{
	bool found = false;

	dl_iterate_phdr(object_is_go, &found);
	return found;
}

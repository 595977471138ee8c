/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The product's static variables (machine.h): what can be written of its shared object, without
 * what the loader alone writes. Each process has a copy of it.
 */
#define _GNU_SOURCE
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "host/whole/machine.h"

#define PRODUCT "lodic-whole"

static struct {
	u8 *at;
	size_t bytes;
	u8 *first; /* as it was before anybody ran */
	u8 *there; /* the copy that stands in the product now */
} image;

static int image_look(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	u8 *from = NULL, *end = NULL, *relro_end = NULL;

	(void)bytes;
	(void)arg;
	if (!strstr(info->dlpi_name, PRODUCT ".so"))
		return 0;
	for (u32 i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *h = &info->dlpi_phdr[i];
		u8 *at = (u8 *)(uintptr_t)(info->dlpi_addr + h->p_vaddr);

		if (h->p_type == PT_LOAD && (h->p_flags & PF_W)) {
			from = at;
			end = at + h->p_memsz;
		}
		if (h->p_type == PT_GNU_RELRO)
			relro_end = at + h->p_memsz;
	}
	if (relro_end > from)
		from = relro_end;
	image.at = from;
	image.bytes = end > from ? (size_t)(end - from) : 0;
	return 1;
}

void image_find(void)
{
	dl_iterate_phdr(image_look, NULL);
	if (!image.at)
		machine_fail("the product's shared object is not loaded");
	image.first = malloc(image.bytes);
	if (!image.first)
		machine_fail("there is no memory for an image");
	memcpy(image.first, image.at, image.bytes);
}

u8 *image_new(void)
{
	u8 *copy = malloc(image.bytes);

	if (!copy)
		machine_fail("there is no memory for an image");
	memcpy(copy, image.first, image.bytes);
	return copy;
}

void image_free(u8 *copy)
{
	if (image.there == copy)
		image.there = NULL;
	free(copy);
}

bool image_has(const void *at)
{
	return (const u8 *)at >= image.at && (const u8 *)at < image.at + image.bytes;
}

void image_switch(struct process *to)
{
	if (to->image == image.there)
		return;
	if (image.there)
		memcpy(image.there, image.at, image.bytes);
	memcpy(image.at, to->image, image.bytes);
	image.there = to->image;
}

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The product's static variables (machine.h): what can be written of its shared object, without
 * what the loader alone writes. Each process has a copy of it. The shim is a shared object of its
 * own, and only the programs that have it have a copy (guest.h).
 */
#define _GNU_SOURCE
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "host/whole/machine.h"

struct image {
	const char *name; /* of the shared object */
	u8 *at;
	size_t bytes;
	u8 *first; /* as it was before anybody ran */
	u8 *there; /* the copy that stands in the product now */
};

static struct image images[NR_IMAGES] = {
	[IMAGE_PRODUCT] = { .name = "lodic-whole.so" },
	[IMAGE_GUEST] = { .name = "lodic-whole-shim.so" },
};

static int image_look(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	u8 *from = NULL, *end = NULL, *relro_end = NULL;
	struct image *image = arg;

	(void)bytes;
	if (!strstr(info->dlpi_name, image->name))
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
	image->at = from;
	image->bytes = end > from ? (size_t)(end - from) : 0;
	return 1;
}

void image_find(void)
{
	for (struct image *image = images; image < images + NR_IMAGES; image++) {
		dl_iterate_phdr(image_look, image);
		if (!image->at)
			machine_fail("the shared object %s is not loaded", image->name);
		image->first = malloc(image->bytes);
		if (!image->first)
			machine_fail("there is no memory for an image");
		memcpy(image->first, image->at, image->bytes);
	}
}

u8 *image_new(enum image_of of)
{
	u8 *copy = malloc(images[of].bytes);

	if (!copy)
		machine_fail("there is no memory for an image");
	memcpy(copy, images[of].first, images[of].bytes);
	return copy;
}

const u64 *image_words(const struct process *process, size_t *ret_nr)
{
	const struct image *image = &images[IMAGE_PRODUCT];
	const u8 *copy = process->images[IMAGE_PRODUCT];

	*ret_nr = image->bytes / sizeof(u64);
	return (const u64 *)(const void *)(copy == image->there ? image->at : copy);
}

void image_free(enum image_of of, u8 *copy)
{
	if (images[of].there == copy)
		images[of].there = NULL;
	free(copy);
}

bool image_has(const void *at)
{
	for (const struct image *image = images; image < images + NR_IMAGES; image++)
		if ((const u8 *)at >= image->at && (const u8 *)at < image->at + image->bytes)
			return true;
	return false;
}

/* A process without the shim leaves another's variables where they are. */
void image_switch(struct process *to)
{
	for (u32 i = 0; i < NR_IMAGES; i++) {
		struct image *image = &images[i];

		if (to->images[i] == image->there || !to->images[i])
			continue;
		if (image->there)
			memcpy(image->there, image->at, image->bytes);
		memcpy(image->at, to->images[i], image->bytes);
		image->there = to->images[i];
	}
}

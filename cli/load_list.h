/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Which files `lodic load` loads: those that its words name, each once. */
#ifndef LODIC_CLI_LOAD_LIST_H
#define LODIC_CLI_LOAD_LIST_H

#include <stddef.h>
#include <stdint.h>

enum load_state {
	LOAD_NEW,
	LOAD_DONE,
	LOAD_PART,    /* the cache had no room for the rest */
	LOAD_REFUSED, /* by the service; error says why */
	LOAD_FAILED   /* before the service had a say; error is the kernel's */
};

struct load_file {
	char *path;
	uint64_t dev, ino;
	uint64_t size;   /* bytes */
	uint64_t loaded; /* of these: they are in the cache */
	int error;       /* an errno */
	const char *why; /* a sentence that says more; NULL: there is none */
	char *told;      /* the same, as the service tells it */
	enum load_state state;
};

struct load_list {
	struct load_file *files;
	size_t nr, room;
	uint64_t bytes; /* of all that are to be loaded */
	void *seen;     /* a tree of the files' numbers */
};

/* Adds what the word names. That is a file, or a folder with all that is below it. If no such file
 * exists it may be a pattern, as the shell has them. What cannot be loaded is in the list, too, as
 * LOAD_FAILED. In a folder, links to files count, because some folders are collections of links.
 * Links to folders do not. -ENOMEM; -EINTR: cli_stopped. */
int load_list_add(struct load_list *list, const char *word);
/* The listed file with these numbers; NULL: there is none. */
struct load_file *load_list_find(const struct load_list *list, uint64_t dev,
                                 uint64_t ino);
void load_list_free(struct load_list *list);

#endif

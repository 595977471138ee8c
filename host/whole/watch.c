/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: port/watch.h. */
#include <stdlib.h>

#include "host/whole/files.h"
#include "lib/port/watch.h"

/* The queue's bound: small, so that it is soon full. */
#define MOST_NEWS 32u

struct watch {
	struct fd_watches *of;
	struct inode *inode;
	struct watch *next;    /* of the instance */
	struct watch *next_on; /* of the inode */
	int number;
	bool moves;
};

struct fd_watches {
	struct description d;
	struct watch *first;
	struct port_news news[MOST_NEWS];
	u32 nr;
	bool lost;
	int last;
};

static unsigned int watches_ready(const struct description *d)
{
	return ((const struct fd_watches *)d)->nr > 0 ? PORT_INPUT : 0;
}

static void watches_add(struct fd_watches *w, int watch, unsigned int what)
{
	struct port_news *end = w->nr > 0 ? &w->news[w->nr - 1] : NULL;

	if (end && end->watch == watch && end->what == what)
		return;
	if (w->nr == MOST_NEWS - 1 && end && end->what != PORT_NEWS_LOST)
		w->news[w->nr++] = (struct port_news){ -1, PORT_NEWS_LOST };
	else if (w->nr < MOST_NEWS - 1)
		w->news[w->nr++] = (struct port_news){ watch, what };
	description_changed(&w->d);
}

static void watch_end(struct watch *watch, bool tell)
{
	struct watch **at;

	for (at = &watch->of->first; *at != watch; at = &(*at)->next)
		;
	*at = watch->next;
	for (at = &watch->inode->watches; *at != watch; at = &(*at)->next_on)
		;
	*at = watch->next_on;
	if (tell)
		watches_add(watch->of, watch->number, PORT_NEWS_GONE);
	free(watch);
}

static void fd_watches_end(struct description *d)
{
	while (((struct fd_watches *)d)->first)
		watch_end(((struct fd_watches *)d)->first, false);
}

static const struct kind watches_kind = { "watches", watches_ready, fd_watches_end };

void watches_tell(struct inode *inode, unsigned int what)
{
	for (struct watch *w = inode->watches; w; w = w->next_on)
		if (what != NEWS_MOVED || w->moves)
			watches_add(w->of, w->number,
			            what == NEWS_MOVED ? PORT_NEWS_RIGHTS : what);
}

void watches_end(struct inode *inode)
{
	while (inode->watches)
		watch_end(inode->watches, true);
}

int port_watches(void)
{
	int err = machine_call(CALL_WATCHES), fd;
	struct fd_watches *w;

	if (err)
		return err;
	w = description_new(&watches_kind, sizeof(*w));
	fd = fd_new(process_now(), &w->d);
	if (fd < 0)
		description_put(&w->d);
	return (int)machine_result(fd);
}

int port_watch_add(int watches, int fd, bool moves)
{
	int err = machine_call(CALL_WATCH_ADD);
	struct fd_watches *w = fd_of(watches, &watches_kind);
	struct fd_file *file = fd_file_of(fd);
	struct watch *watch;
	u32 nr = 0;

	if (err || !w || !file)
		return err ? err : -EBADF;
	if (!inode_allows(file->inode, process_now()->uid, PORT_MAY_READ))
		return (int)machine_result(-EACCES);
	for (watch = w->first; watch; watch = watch->next) {
		nr++;
		if (watch->inode == file->inode) {
			watch->moves = moves;
			return (int)machine_result(watch->number);
		}
	}
	if (machine.most_watches > 0 && nr >= machine.most_watches)
		return (int)machine_result(-ENOSPC);
	watch = calloc(1, sizeof(*watch));
	*watch = (struct watch){ w, file->inode, w->first, file->inode->watches,
		                 ++w->last, moves };
	w->first = file->inode->watches = watch;
	return (int)machine_result(watch->number);
}

bool port_watch_remove(int watches, int number)
{
	struct fd_watches *w;
	struct watch *watch;

	machine_pass(CALL_WATCH_REMOVE);
	w = fd_of(watches, &watches_kind);
	watch = w ? w->first : NULL;
	while (watch && watch->number != number)
		watch = watch->next;
	if (watch)
		watch_end(watch, true);
	return machine_result(watch != NULL);
}

unsigned int port_watch_next(int watches, struct port_news ret[PORT_NEWS_AT_ONCE])
{
	struct fd_watches *w;
	unsigned int nr;

	machine_pass(CALL_WATCH_NEXT);
	w = fd_of(watches, &watches_kind);
	nr = w ? w->nr : 0;
	for (unsigned int i = 0; i < nr; i++)
		ret[i] = w->news[i];
	if (w)
		w->nr = 0;
	return (unsigned int)machine_result(nr);
}

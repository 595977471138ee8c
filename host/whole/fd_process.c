/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Descriptors of processes (machine.h). */
#include "host/whole/machine.h"
#include "lib/port.h"

/* Input, once the process is dead and its descriptors are closed. */
struct fd_process {
	struct description d;
	struct process *process;
	struct fd_process *next; /* of the same process */
};

static unsigned int fd_process_ready(const struct description *d)
{
	return ((const struct fd_process *)d)->process->closed ? PORT_INPUT : 0;
}

static void fd_process_end(struct description *d)
{
	struct fd_process **at = &((struct fd_process *)d)->process->watched;

	while (*at != (struct fd_process *)d)
		at = &(*at)->next;
	*at = (*at)->next;
}

static const struct kind process_kind = { "process", fd_process_ready, fd_process_end };

void process_watched(struct process *process)
{
	for (struct fd_process *p = process->watched; p; p = p->next)
		description_changed(&p->d);
}

int process_watch(struct process *process)
{
	struct fd_process *p = description_new(&process_kind, sizeof(*p));
	int number;

	p->process = process;
	p->next = process->watched;
	process->watched = p;
	number = fd_new(process_now(), &p->d);
	if (number < 0)
		description_put(&p->d);
	return number;
}

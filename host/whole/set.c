/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: port/set.h. The set of descriptors that a loop waits for. */
#include <stdlib.h>

#include "host/whole/machine.h"
#include "lib/port/set.h"

struct set {
	struct description d;
	struct member *members; /* those that have waited longest come first */
};

/* A description in a set, under a number. */
struct member {
	struct set *set;
	struct description *d;
	struct member *next;    /* of the set */
	struct member *next_of; /* of the description */
	u32 number;
	unsigned int what;
	u64 seen; /* PORT_NEW_INPUT: the inputs that have been told */
	void *whose;
};

static bool member_is_ready(const struct member *m)
{
	unsigned int now = m->d->kind->ready ? m->d->kind->ready(m->d) : 0;

	if (now & READY_HANG_UP)
		return true;
	if (m->what == PORT_NEW_INPUT)
		return (now & PORT_INPUT) && m->seen != m->d->inputs;
	return now & m->what & PORT_INPUT;
}

static unsigned int set_ready(const struct description *d)
{
	for (const struct member *m = ((const struct set *)d)->members; m; m = m->next)
		if (member_is_ready(m))
			return PORT_INPUT;
	return 0;
}

static void member_end(struct member *m)
{
	struct member **at;

	for (at = &m->set->members; *at != m; at = &(*at)->next)
		;
	*at = m->next;
	for (at = &m->d->members; *at != m; at = &(*at)->next_of)
		;
	*at = m->next_of;
	free(m);
}

static void set_end(struct description *d)
{
	while (((struct set *)d)->members)
		member_end(((struct set *)d)->members);
}

static const struct kind set_kind = { "set", set_ready, set_end };

void members_changed(struct description *d)
{
	for (struct member *m = d->members; m; m = m->next_of)
		waiters_wake(&m->set->d.waiters);
}

void members_end(struct description *d)
{
	while (d->members)
		member_end(d->members);
}

static struct member *set_find(struct set *set, const struct description *d, int number)
{
	struct member *m = set->members;

	while (m && (m->d != d || m->number != (u32)number))
		m = m->next;
	return m;
}

int port_set(void)
{
	int err = machine_call(CALL_SET), fd;
	struct set *set;

	if (err)
		return err;
	set = description_new(&set_kind, sizeof(*set));
	fd = fd_new(process_now(), &set->d);
	if (fd < 0)
		description_put(&set->d);
	return (int)machine_result(fd);
}

int port_set_add(int set_fd, int fd, unsigned int what, void *whose)
{
	int err = machine_call(CALL_SET_ADD);
	struct set *set = fd_of(set_fd, &set_kind);
	struct description *d = fd_get(fd);
	struct member *m, **end;

	if (err || !set || !d)
		return err ? err : -EBADF;
	if (!d->kind->ready)
		return -EPERM;
	if (set_find(set, d, fd))
		return -EEXIST;
	m = calloc(1, sizeof(*m));
	*m = (struct member){ .set = set, .d = d, .next_of = d->members,
		              .number = (u32)fd, .what = what, .whose = whose,
		              .seen = d->inputs - 1 };
	d->members = m;
	for (end = &set->members; *end; end = &(*end)->next)
		;
	*end = m;
	waiters_wake(&set->d.waiters);
	return (int)machine_result(0);
}

int port_set_change(int set_fd, int fd, unsigned int what, void *whose)
{
	int err = machine_call(CALL_SET_CHANGE);
	struct set *set = fd_of(set_fd, &set_kind);
	struct description *d = fd_get(fd);
	struct member *m;

	if (err || !set || !d)
		return err ? err : -EBADF;
	m = set_find(set, d, fd);
	if (!m)
		return -ENOENT;
	m->what = what;
	m->whose = whose;
	m->seen = d->inputs - 1;
	waiters_wake(&set->d.waiters);
	return (int)machine_result(0);
}

void port_set_remove(int set_fd, int fd)
{
	struct set *set;
	struct description *d;
	struct member *m;

	machine_pass(CALL_SET_REMOVE);
	set = fd_of(set_fd, &set_kind);
	d = fd_get(fd);
	m = set && d ? set_find(set, d, fd) : NULL;
	if (m)
		member_end(m);
}

/* A member that was told goes behind the others. */
static void set_behind(struct set *set, struct member *m)
{
	struct member **at;

	for (at = &set->members; *at != m; at = &(*at)->next)
		;
	*at = m->next;
	m->next = NULL;
	for (at = &set->members; *at; at = &(*at)->next)
		;
	*at = m;
}

static unsigned int set_tell(struct set *set, void **ret_whose, unsigned int most)
{
	struct member *m = set->members, *told[64];
	unsigned int nr = 0;

	for (; m && nr < most && nr < 64; m = m->next) {
		if (!member_is_ready(m))
			continue;
		m->seen = m->d->inputs;
		ret_whose[nr] = m->whose;
		told[nr++] = m;
	}
	for (unsigned int i = 0; i < nr; i++)
		set_behind(set, told[i]);
	return nr;
}

int port_set_wait(int set_fd, void **ret_whose, unsigned int most, int ms)
{
	u64 until = ms < 0 ? NS_NEVER : machine.now_ns + (u64)ms * 1000000;
	int err = machine_call(CALL_SET_WAIT);
	struct set *set = fd_of(set_fd, &set_kind);
	unsigned int nr;

	if (err || !set)
		return err ? err : -EBADF;
	nr = set_tell(set, ret_whose, most);
	while (nr == 0 && machine.now_ns < until) {
		if (!task_wait(&set->d.waiters, until))
			break;
		nr = set_tell(set, ret_whose, most);
	}
	return (int)machine_result((long)nr);
}

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * See systems.h. A dead server, or a process that does not answer, keeps a worker that asks it.
 * So the kernel is asked first which file system a descriptor is of (port_place()), and the system
 * itself then (port_system()).
 *
 * A number of a device is used again after an unmount, for another system. A kernel since 6.8
 * numbers mounts, and never uses such a number again. There the kind of a system is remembered.
 * Elsewhere it counts only while a worker is inside: that one has a file of it open. One system
 * may have many mounts; workers are counted by its device.
 *
 *   unknown --one worker asks--> known
 *   known, and may not answer: SYSTEMS_INSIDE workers at most ask it anything
 *
 * A worker that comes on top waits until the last one to enter has been inside for
 * SYSTEMS_WAIT_NS. Then it gives up. So a dead system keeps SYSTEMS_INSIDE workers, and all
 * others for one such time.
 */
#include <errno.h>

#include "core/check.h"
#include "host/host.h"
#include "lib/port/thread.h"
#include "lib/service/file/systems.h"

/* More than workers, so that one is always free. Our choice: as many mounts have files that
 * programs read. */
#define SYSTEMS_MOST 64u
#define SYSTEMS_INSIDE 2u
/* Of WORKERS_MOST, if several systems do not answer. worker.h counts the others. */
#define SYSTEMS_INSIDE_ALL 4u
#define SYSTEMS_ASKED 6u

struct system {
	u64 dev, mount;
	enum port_system kind;
	bool used, known;
	u32 nr_inside;  /* workers that ask it something */
	u64 entered_ns; /* when the last one of these began */
};

static struct {
	struct port_once once;
	struct port_lock lock; /* guards what follows */
	struct port_condition left;
	struct system each[SYSTEMS_MOST];
	u32 nr_inside; /* of all */
	/* The mounts that stay as long as this process; they stand still. */
	struct own_mount {
		u64 dev, mount;
	} own[2];
} systems;

static void systems_init(void)
{
	static const char *const paths[] = { "/", "/proc/self/exe" };
	struct port_place place;

	port_lock_init(&systems.lock);
	port_condition_init(&systems.left);
	for (u32 i = 0; i < 2; i++)
		if (port_place_at(paths[i], &place) == 0)
			systems.own[i] = (struct own_mount){ place.dev, place.mount };
}

static bool systems_is_away(const struct port_place *place)
{
	for (u32 i = 0; i < 2; i++)
		if (systems.own[i].dev == place->dev &&
		    systems.own[i].mount == place->mount)
			return false;
	return true;
}

/* The entry of that system, made if need be. While a worker is inside, its number is no other
 * one's. The lock is held. */
static struct system *systems_entry(const struct systems_kind *k)
{
	struct system *oldest = NULL;

	for (u32 i = 0; i < SYSTEMS_MOST; i++) {
		struct system *e = &systems.each[i];

		if (e->used && e->dev == k->dev) {
			if (e->nr_inside == 0 && e->mount != k->mount) {
				e->known = false;
				e->mount = k->mount;
			}
			return e;
		}
		if (e->nr_inside == 0 &&
		    (!oldest || e->entered_ns < oldest->entered_ns))
			oldest = e;
	}
	if (oldest)
		*oldest = (struct system){ .dev = k->dev,
			                   .mount = k->mount,
			                   .used = true };
	return oldest;
}

/* Waits for one who is inside to leave. false: they do not, it seems. The lock is held. */
static bool systems_wait(const struct system *e, u64 since_ns)
{
	u64 end_ns =
		(e->entered_ns < since_ns ? e->entered_ns : since_ns) + SYSTEMS_WAIT_NS;

	return port_condition_wait_until(&systems.left, &systems.lock, end_ns);
}

/* One more is inside, and most at most. *ret_known: nobody needs to ask what kind it is, and then
 * this one is not inside. The lock is held. */
static int systems_go_in(const struct systems_kind *k, u32 most, u32 most_of_all,
                         enum port_system *ret_known)
{
	u64 since_ns = host_now_ns();
	struct system *e;

	/* Each turn but the last waits; systems_wait() has a deadline. */
	for (;;) {
		e = systems_entry(k);
		if (!e)
			return -EBUSY;
		if (ret_known && e->known) {
			*ret_known = e->kind;
			return 1;
		}
		if (e->nr_inside < most && systems.nr_inside < most_of_all)
			break;
		if (!systems_wait(e, since_ns))
			return -EBUSY;
	}
	e->nr_inside++;
	systems.nr_inside++;
	e->entered_ns = host_now_ns();
	return 0;
}

/* kind: what the system has said, or NULL. */
static void systems_go_out(const struct systems_kind *k, const enum port_system *kind)
{
	struct system *e;

	port_lock_take(&systems.lock);
	e = systems_entry(k); /* it stays while somebody is inside */
	e->nr_inside--;
	systems.nr_inside--;
	if (kind)
		e->kind = *kind;
	e->known = (e->known || kind) && (k->mount != 0 || e->nr_inside > 0);
	port_condition_tell_all(&systems.left);
	port_lock_give(&systems.lock);
}

int systems_find(int fd, struct systems_kind *ret_kind)
{
	struct systems_kind k;
	struct port_place place;
	int err;

	port_once(&systems.once, systems_init);
	err = port_place(fd, &place);
	if (err)
		return err;
	k = (struct systems_kind){ .dev = place.dev,
		                   .mount = place.mount_for_ever,
		                   .away = systems_is_away(&place) };
	port_lock_take(&systems.lock);
	err = systems_go_in(&k, 1, SYSTEMS_ASKED, &k.system);
	port_lock_give(&systems.lock);
	if (err == 0) {
		err = port_system(fd, &k.system);
		systems_go_out(&k, err ? NULL : &k.system);
	}
	if (err >= 0)
		*ret_kind = k;
	return err < 0 ? err : 0;
}

int systems_enter(const struct systems_kind *kind)
{
	int err;

	port_lock_take(&systems.lock);
	err = systems_go_in(kind, SYSTEMS_INSIDE, SYSTEMS_INSIDE_ALL, NULL);
	port_lock_give(&systems.lock);
	return err;
}

void systems_leave(const struct systems_kind *kind)
{
	systems_go_out(kind, NULL);
}
